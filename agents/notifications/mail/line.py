"""Line: the one connection over which a mailbox is read, under an agent id of its own.

Mailboxes outlive the agents whose subscriptions they serve, so they borrow nothing of them but the protocol.
"""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from ....protocol.contents import as_table
from ....protocol.errors import PolicyRefused
from ....protocol.peer import Peer
from ....protocol.reply import Reply
from ....transport import loop
from ....transport.counters import Counters
from ....transport.wire import Protocol
from ...interfaces import NewClient
from ..subscription import Subscription
from .words import policy_word

logger = logging.getLogger("pzc.mail")

GRACE = 0.5
"""Seconds behind its time that an answer is still waited for."""


class Line:
    """Asks a publisher; safe from any thread.

    Args:
        new_client: makes its client.
        protocol: formats, checks and decodes.
        peer: the publisher.

    Attributes:
        loop: the I/O thread, in which answers come.
        counters: where everything is counted.
        peer: the publisher as it was met last.
        key_id: of the key with which it publishes; empty for one without keys.
    """

    def __init__(self, new_client: NewClient, protocol: Protocol, peer: Peer) -> None:
        self.loop = loop.acquire()
        self.counters = Counters()
        self.peer = peer
        self.key_id = peer.publishing
        self._client = new_client(self.loop, protocol, os.urandom(16).hex(), self.counters)
        self._client.learn(peer)

    def ask(self, content: object, timeout: float) -> Future[Reply]:
        """Send a request; the answer to come.

        Raises:
            PzcError: when it cannot be sent.
        """
        return self._client.submit_to(self.peer, content, timeout)

    def answered(self, reply: Reply) -> None:
        """An answer came, perhaps by an agent that has replaced the publisher."""
        if reply.sender != self.peer.agent_id:
            self.peer = self._client.known(self.peer.endpoint) or self.peer
            self.key_id = self.peer.publishing
        if isinstance(reply.content, dict):
            self.peer.learn(cast("dict[str, object]", reply.content).get("types"))

    def move(self, endpoint: str, timeout: float) -> bool:
        """The publisher is at another endpoint; False when that is known. Not the I/O thread.

        Raises:
            PzcError: when it could not be reached.
        """
        if endpoint == self.peer.endpoint:
            return False
        self._client.forget(endpoint)
        self.peer = self._client.peer(endpoint, time.monotonic() + timeout)
        return True

    def close(self) -> None:
        """Give back everything; not in the I/O thread."""
        for step in (
            self._client.close,
            partial(loop.release, self.loop),
        ):
            try:
                step()
            except Exception:
                logger.exception("a mailbox could not let go of everything")


class Offers:
    """What a publisher was asked whether it offers; each thing once.

    Args:
        line: to it.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._offered: set[tuple[str, bool, tuple[Any, ...]]] = set()

    def ask(self, subscription: Subscription, deadline: float) -> None:
        """Return when the publisher keeps mailboxes as a subscription wants them; monotonic seconds.

        Raises:
            PolicyRefused: when it does not.
            CallTimeout, PeerLost: when it does not answer.
        """
        topic, policy, raw = subscription.topic, policy_word(subscription.policy), subscription.raw
        if (topic, raw, tuple(policy)) in self._offered:
            return
        asked = {"pzc": "mailbox", "offer": topic, "policy": policy, "raw": raw}
        left = max(0.001, deadline - time.monotonic())
        answer: object = self._line.ask(asked, left).result(left + GRACE).content
        endpoint = self._line.peer.endpoint
        told = as_table(answer)
        if told.get("offered") != topic:
            raise PolicyRefused(f"{endpoint} keeps no mailboxes: use block() or drop(n)")
        if raw and told.get("raw") is not True:
            raise PolicyRefused(f"{endpoint} keeps no frames in mailboxes: use drop(n)")
        self._offered.add((topic, raw, tuple(policy)))
