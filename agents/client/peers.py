"""Peers: the handshake with another agent, and what it told.

::

    state     event                                   next
    unknown   hello answered                          known(agent id, clock offset)
    unknown   answered in another version             known, as `compat.pizco_client` meets it
    known     timeout, loss, or refusal by a          unknown
              restarted agent (another agent id)
    known     not used for long                       unknown

The handshake measures the peer's clock: challenge and answer are signed. When the clocks are more
than 5 s apart, or those of any peer ever were, a second round lets the peer measure ours too, by
echoing its nonce.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace

from ...protocol.contents import as_table, is_word
from ...protocol.errors import CallTimeout, RemoteProtocolError, VersionError
from ...protocol.frames import PZC01
from ...protocol.ids import EPOCH_BITS, TIME_BITS
from ...protocol.shown import shown
from ...transport import endpoints, families
from ...transport.peer import Peer
from ...transport.threads import acquired
from ...transport.wire import Protocol, now_ms
from ..compat import pizco_client
from ..reply import Reply, accepted

logger = logging.getLogger("pzc.requests")

OFFSET_WORTH_TELLING_MS = 5_000
"""Clock difference from which the peer is given the means to measure it."""


def read_hello(
    endpoint: str, sent: dict[str, str], reply: object, sent_ms: int, sender: str, key_id: str
) -> Peer:
    """The peer out of its answer to ``sent``, which ``sender`` signed with the key ``key_id``.

    Raises:
        RemoteProtocolError: when it is not an answer to that challenge.
    """
    fields = as_table(reply)
    if not (is_word(fields.get("challenge"), sent["challenge"]) and is_word(fields.get("agent_id"), sender)):
        raise RemoteProtocolError(f"{endpoint} did not answer the handshake: {shown(reply, 200)}")
    try:
        told_ms, epoch = int(fields["time_ms"]), int(fields["epoch"])
        if told_ms >> TIME_BITS or epoch >> EPOCH_BITS:
            raise ValueError("its time or its epoch cannot be")
        return Peer(
            endpoint,
            PZC01,
            sender,
            epoch,
            str(fields["name"]),
            reachable(str(fields["pub_endpoint"]), endpoint),
            clock_offset(told_ms, sent_ms, now_ms()),
            fields,
            key_id,
        )
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise RemoteProtocolError(f"{endpoint} answered the handshake incompletely: {exc!r}") from exc


def clock_offset(told_ms: int, sent_ms: int, received_ms: int) -> int:
    """A peer's clock minus this one, in ms, by what it told between a request and its answer.

    Clocks that may agree are taken to agree: those of one machine do, however long the answer took.
    """
    if sent_ms <= told_ms <= received_ms:
        return 0
    return told_ms - (sent_ms + received_ms) // 2


def reachable(advertised: str, reached: str) -> str:
    """An advertised endpoint with the host by which its agent was reached, when nobody could dial its own.

    ``tcp://0.0.0.0:5555`` is no address a peer could dial; the host that just answered is. And what an
    agent of another host calls 127.0.0.1 is not this one.
    """
    host, _ = endpoints.split(reached)
    _, port = endpoints.split(advertised)
    astray = endpoints.is_loopback(advertised) and not endpoints.is_loopback(reached)
    if host and port and (astray or endpoints.is_wildcard(advertised)):
        return f"tcp://{host}:{port}"
    return advertised


_MAX_PROVED = 10_000

Ask = Callable[[Peer, object, float], Reply]
"""Sends content to whoever is there, once, over ZeroMQ: peer, content, deadline in monotonic seconds."""


class Peers:
    """Peers by endpoint: meets them for one agent, and remembers who was met; safe from any thread.

    Args:
        protocol: of the agent.
        ask: sends a request to a peer that was not met yet.
    """

    def __init__(self, protocol: Protocol, ask: Ask) -> None:
        self._protocol = protocol
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[str, Peer] = {}
        self._proved: dict[str, None] = {}
        self._measured = False
        self.get = self._known.get
        """The peer at an endpoint, when its handshake was done."""
        self._turns: weakref.WeakValueDictionary[str, threading.Lock] = weakref.WeakValueDictionary()

    def meet(self, endpoint: str, deadline: float) -> Peer:
        """The peer behind an endpoint, after a handshake if need be, of which there is one at a time.

        Args:
            endpoint: of the peer.
            deadline: in monotonic seconds.

        Raises:
            CallTimeout, PeerLost, SignatureError, VersionError, RemoteProtocolError: when nobody is met.
        """
        if (peer := self.get(endpoint)) is not None:
            return peer
        with self._lock:
            turn = self._turns.setdefault(endpoint, threading.Lock())
        if not acquired(turn, max(0.0, deadline - time.monotonic())):
            raise CallTimeout(f"{endpoint} did not answer another thread's handshake in time")
        try:
            peer = self.get(endpoint) or self._shake_hands(endpoint, deadline)
            self.learn(peer)
            return peer
        finally:
            turn.release()

    def learn(self, peer: Peer) -> None:
        """Remember a peer."""
        (host, _), (pub_host, port) = map(endpoints.split, (peer.endpoint, peer.pub_endpoint))
        if endpoints.is_named(peer.endpoint) and pub_host == host and families.is_settled(peer.endpoint):
            address, _ = endpoints.split(families.place(peer.endpoint))
            families.learn(peer.pub_endpoint, f"tcp://{address}:{port}")
        with self._lock:
            self._known[peer.endpoint] = peer
            if peer.key_id:
                self._proved.pop(peer.endpoint, None)
                self._proved[peer.endpoint] = None
                if len(self._proved) > _MAX_PROVED:
                    del self._proved[next(iter(self._proved))]

    def forget(self, endpoint: str) -> None:
        """The next request shakes hands again, wherever a host name leads by then."""
        families.forget(endpoint)
        with self._lock:
            self._known.pop(endpoint, None)

    def leave(self, endpoint: str) -> None:
        """Nobody uses it now: the next request shakes hands again, but for one that may be a bare PUB."""
        with self._lock:
            peer = self._known.get(endpoint)
            if peer is not None and peer.native:
                del self._known[endpoint]

    def _shake_hands(self, endpoint: str, deadline: float) -> Peer:
        if pizco_client.is_alone(self._protocol):
            return self._meet_other(endpoint, deadline)
        try:
            peer = self._hello(endpoint, deadline, "")
        except VersionError:
            return self._meet_other(endpoint, deadline)
        if abs(peer.offset_ms) > OFFSET_WORTH_TELLING_MS:
            logger.warning("clock of %s is %+.1f s off this machine's", endpoint, peer.offset_ms / 1000)
            self._measured = True
        if self._measured:  # by somebody, who has to measure again when the clocks are put right
            return self._hello(endpoint, deadline, str(peer.details.get("nonce", "")))
        return peer

    def _hello(self, endpoint: str, deadline: float, answer: str) -> Peer:
        content, sent_ms = {"pzc": "hello", "challenge": secrets.token_hex(8)}, now_ms()
        if answer:
            content["answer"] = answer
        reply = accepted(self._ask(Peer(endpoint, PZC01, "", 0, "", "", 0, {}), content, deadline))
        return read_hello(endpoint, content, reply.content, sent_ms, reply.sender, reply.key_id)

    def _meet_other(self, endpoint: str, deadline: float) -> Peer:
        peer = pizco_client.meet(self._protocol, endpoint, endpoint in self._proved, self._ask, deadline)
        return replace(peer, pub_endpoint=reachable(peer.pub_endpoint, endpoint))
