"""A publisher that is made of an agent's parts one by one, so that a test has each of them in its hands."""

from __future__ import annotations

import os
import queue
import socket
from collections.abc import Callable
from typing import Any

from pzc import Protocol
from pzc.agents.notifications.publishing import Publishing
from pzc.agents.server.answering import Answering
from pzc.protocol.keyring import Role
from pzc.transport import loops
from pzc.transport.counters import Counters
from pzc.transport.endpoints import RANDOM_TCP
from pzc.transport.executor import Executor
from pzc.transport.settings import load

from tests.contract.rigs.peers import TIMEOUT


def nothing() -> None:
    """In the place of what only an agent does."""


class InParts:
    """Answers requests and publishes as an agent does, without a name.

    Attributes:
        answering: the part that takes requests.
        publishing: the part that publishes.
        about: told in the handshake in the place of what is so.
        changes: one for each change of the filters, or of links.
    """

    def __init__(self, protocol: Protocol | None = None, **about: Any) -> None:
        settings = load()
        self.protocol = protocol or Protocol(settings=settings)
        self.agent_id, self.counters, self.about = os.urandom(16).hex(), Counters(), about
        self.changes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.loop = loops.acquire()
        self._callbacks = Executor("pzc-callbacks")
        self.answering = Answering(
            self.loop, RANDOM_TCP, "", self.protocol, self.agent_id, "", self.counters,
            concurrency=1, affine=False, lanes=1, reads_while_locked=False,
            role_needed=lambda _: Role.OBSERVER, on_request=lambda *what: what[2], on_lock_change=lambda _: None,
        )  # fmt: skip
        self.publishing = Publishing(
            self.loop, RANDOM_TCP, self.protocol, self.agent_id, "", self.counters, self.answering.replies,
            self.on_filters, nothing, self._callbacks, "",
        )  # fmt: skip
        self._control = self.answering.attach_control(self.publishing.publisher, self.describe, nothing)
        self._control.words.update(self.publishing.words)
        self.publish, self.advertise = self.publishing.publish, self.publishing.advertise
        self.wait_for_subscribers = self.publishing.wait_for_subscribers
        self.publishing.start()
        self.loop.run(self.answering.start)

    @property
    def rep_endpoint(self) -> str:
        """Where it answers."""
        return self.answering.zmq.endpoint

    @property
    def pub_endpoint(self) -> str:
        """Where it publishes."""
        return self.publishing.endpoint

    @property
    def epoch(self) -> int:
        """Of this start."""
        return self.protocol.epoch

    def describe(self) -> dict[str, Any]:
        """What the handshake tells."""
        codec = self.protocol.codec
        told = {
            "agent_id": self.agent_id, "epoch": self.epoch, "name": "", "partition": "", "kind": "Agent",
            "host": socket.gethostname(), "pid": os.getpid(), "rep_endpoint": self.rep_endpoint,
            "pub_endpoint": self.pub_endpoint, "dialects": list(codec.accept),
            "serializers": sorted(codec.accept_serializers), "signed": self.protocol.signed,
            "suites": codec.suites, "publishes": self.protocol.publishing_key, "pipelined": True,
            "stream_endpoint": "", "stream_name": "", "lane": self.answering.unix.name, "lock": self.answering.presence.describe(),
        }  # fmt: skip
        return {**told, **self.about}

    def statistics(self) -> dict[str, Any]:
        """Of topics, links and mailboxes."""
        return self.publishing.statistics()

    def on_filters(self) -> None:
        """The set of filters, or of links, has changed."""
        self.changes.put(None)
        self._control.on_filters()

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait for a state that changes with the filters."""
        while not condition():
            self.changes.get(timeout=TIMEOUT)

    def dialects(self, topic: str) -> tuple[str, ...]:
        """Those in which somebody listens to the broadcast of a topic."""
        senders = self.publishing.broadcast.senders(topic)
        return tuple(dict.fromkeys("PZC00" if "://" in sender else "PZC01" for sender in senders))

    def forget_silent_readers(self) -> None:
        """End the mailboxes, as if nobody had been heard for a day."""
        subscribers = self.publishing.subscribers
        for subscriber in subscribers.all():
            subscribers.end(subscriber, "its reader was silent for a day")

    def give_up_unix(self) -> None:
        """Answer at the Unix socket no longer."""
        self.loop.run(self.answering.unix.stop_listening)

    def stop(self) -> None:
        """As an agent ends."""
        self.publishing.close_links()
        self.answering.finish_calls(nothing)
        self.loop.run(self.answering.close)
        self.publishing.close()
        self._callbacks.close()
        loops.release(self.loop)

    def __enter__(self) -> InParts:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
