"""Handshake: who is behind an endpoint, asked once and by one thread at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ...protocol.errors import VersionError
from ...protocol.frames import PZC00, PZC01
from ...protocol.peer import Peer, unmet
from ...protocol.reply import Reply, accepted
from ...transport.wire import Protocol, now_ms
from .peers import OFFSET_WORTH_TELLING_MS, Peers, hello, read_hello, read_info_00

logger = logging.getLogger("pzc.requests")

Ask = Callable[[Peer, object, float], Reply]
"""Sends content to whoever is there, once, over ZeroMQ: peer, content, deadline in monotonic seconds."""


class Handshake:
    """Meets peers for one agent; safe from any thread.

    Args:
        protocol: of the agent.
        ask: sends a request to a peer that was not met yet.

    Attributes:
        peers: who was met.
    """

    def __init__(self, protocol: Protocol, ask: Ask) -> None:
        self._protocol = protocol
        self._ask = ask
        self.peers = Peers()

    def peer(self, endpoint: str, deadline: float) -> Peer:
        """The peer behind an endpoint, after a handshake if need be.

        Raises:
            CallTimeout, PeerLost, SignatureError, VersionError, RemoteProtocolError: when nobody is met.
        """
        if (peer := self.peers.get(endpoint)) is not None:
            return peer
        with self.peers.meeting(endpoint, deadline) as met:
            peer = met or self._meet(endpoint, deadline)
            self.peers.learn(peer)
            return peer

    def _meet(self, endpoint: str, deadline: float) -> Peer:
        if self._protocol.codec.dialect == PZC00:
            return self._meet_00(endpoint, deadline)
        try:
            peer = self._hello(endpoint, deadline, "")
        except VersionError:
            return self._meet_00(endpoint, deadline)
        if abs(peer.offset_ms) > OFFSET_WORTH_TELLING_MS:
            logger.warning("clock of %s is %+.1f s off this machine's", endpoint, peer.offset_ms / 1000)
            return self._hello(endpoint, deadline, str(peer.details.get("nonce", "")))
        return peer

    def _hello(self, endpoint: str, deadline: float, answer: str) -> Peer:
        content, sent_ms = hello(answer), now_ms()
        reply = accepted(self._ask(unmet(endpoint, PZC01), content, deadline))
        return read_hello(endpoint, content, reply.content, sent_ms, reply.sender, reply.key_id)

    def _meet_00(self, endpoint: str, deadline: float) -> Peer:
        self.peers.check_original(endpoint, self._protocol.codec.accept)
        info: Any = self._ask(unmet(endpoint, PZC00), "info", deadline).content
        return read_info_00(endpoint, info)
