"""Lines: transports to peers in a pool, one user at a time.

A call checks a line out, sends and waits on it in its own thread, and returns it; so replies
cannot be stolen, and a timeout costs that one line, never the peer's other calls. How a line is found
for a peer::

    transport   first                      else
    auto        idle unix, new unix        idle tcp, new tcp
    inproc      as auto, in this process   PeerLost
    unix        idle unix, new unix        PeerLost
    tcp         idle tcp, new tcp          -

A peer whose fast lane could not be reached is not tried again there until it is met anew. A peer that
was reached at a port that is not its own stands behind a forwarder, whose way is respected.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import zmq

from ...protocol.consignments import Consignment
from ...protocol.errors import AgentClosed, PeerLost
from ...protocol.frames import PZC01
from ...protocol.session import AskingSession, Party
from ...protocol.signing import Suite
from ..serving import fastlane, inproc
from ..serving.replies import CAPABLE_ARRAYS
from ..sockets.channels import Channel
from ..sockets.transport import Transport
from ..wire import Protocol
from .dialling import settle
from .peers import Peer, is_direct

MAX_IDLE = 8
"""Idle lines kept per peer and kind."""

GMAC = "aes256-gmac"


@dataclass(slots=True, eq=False)
class Line:
    """One transport to one peer.

    Attributes:
        transport: carries the frames.
        kind: ``unix`` or ``tcp``.
        endpoint: of the peer.
        agent_id: of the peer; a Unix socket leads to nobody else.
        binding: what stands behind both agent ids under the signatures of this line.
        options: of `Codec.encode`, by what the peer accepts.
        proved: a reply has come over it.
        session: makes and reads messages that are like nearly all others; None for none.
    """

    transport: Transport
    kind: str
    endpoint: str
    agent_id: str
    binding: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    proved: bool = False
    session: AskingSession | None = None


def abilities(peer: Peer) -> dict[str, Any]:
    """Options of `Codec.encode` by what a peer told in its handshake."""
    if peer.dialect != PZC01:
        return {}
    suite = GMAC if GMAC in (peer.details.get("suites") or ()) else None
    return {"suite": suite, "arrays": "buffers" in (peer.details.get("serializers") or ())}


def capabilities(protocol: Protocol) -> int:
    """What the sequence field of a request tells: what its sender can read."""
    return CAPABLE_ARRAYS if "buffers" in protocol.codec.accept_serializers else 0


def asking_session(
    protocol: Protocol, agent_id: str, peer: Peer, binding: str, *, words: bool = False
) -> AskingSession | None:
    """The session of a new line to a peer; None when one of the two wants something unusual.

    Args:
        protocol: of the agent.
        agent_id: of the agent.
        peer: at the other end.
        binding: what stands behind both agent ids under the signatures of the line.
        words: only control words go, which need not be in the serializer that the agent chose.
    """
    codec, able = protocol.codec, abilities(peer)
    pickled = words or codec.serializer == "pickle"
    usual = pickled and "pickle" in codec.accept_serializers and not codec.suite
    if not (usual and peer.agent_id and able and "pickle" in (peer.details.get("serializers") or ())):
        return None
    ours = theirs = None
    if codec.keyring is not None:
        ours, theirs = codec.keyring.active, codec.keyring.find(peer.key_id)
        if theirs is None or able["suite"] is None:
            return None
    return AskingSession(
        Party(agent_id, agent_id + binding, ours, protocol.epoch),
        Party(peer.agent_id, peer.agent_id + binding, theirs, peer.epoch),
        capabilities(protocol),
        able["arrays"],
        protocol.counter(),
    )


def arriving(protocol: Protocol, agent_id: str, peer: Peer, binding: str, msgid: str) -> Consignment | None:
    """What opens bundles that answer a request of this agent; None when something is unusual.

    Args:
        protocol: of the agent.
        agent_id: of the agent.
        peer: who sends them.
        binding: what stands behind both agent ids under the signatures of the line.
        msgid: of the request.
    """
    codec = protocol.codec
    theirs = None if codec.keyring is None else codec.keyring.find(peer.key_id)
    if theirs is None or Suite.AES256_GMAC not in codec.accept_suites:
        return None
    return Consignment(peer.agent_id, theirs, peer.epoch, agent_id + binding, msgid.encode())


class Lines:
    """All lines of one agent, safe from any thread.

    Args:
        context: of the agent's loop.
        new_session: makes the session of a Unix socket to a peer, with the binding of its signatures.

    Attributes:
        open: False from `close` on; cheaper than to ask ``closed``.
        busy: has an entry for each call that uses lines which it did not `take`.
        closed: set by `close`.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        new_session: Callable[[Peer, str], AskingSession | None] = lambda *_: None,
    ) -> None:
        self._context = context
        self._new_session = new_session
        self._idle: dict[tuple[str, str], list[Line]] = {}
        self._without_lane: set[str] = set()
        self._changed = threading.Condition()
        self._in_use = 0
        self.busy: list[object] = []
        self.open = True
        self.closed = threading.Event()

    def take(self, peer: Peer, transport: str = "auto", deadline: float = math.inf) -> Line:
        """An idle or new line, by the deadline; give it back with `give` or `discard`.

        Raises:
            AgentClosed: after `close`.
            PeerLost: when ``transport`` is ``unix`` or ``inproc`` and there is no such way.
        """
        if transport == "inproc" and peer.agent_id and not inproc.is_here(peer.agent_id):
            raise PeerLost(f"{peer.endpoint} is not in this process; use another transport than inproc")
        with self._changed:
            if self.closed.is_set():
                raise AgentClosed("the agent was stopped")
            self._in_use += 1
        try:
            if transport != "tcp" and peer.agent_id:
                line = self._unix(peer, transport == "unix", deadline)
                if line is not None:
                    return line
            line = self._take_idle(peer, "tcp") or self._tcp(peer, deadline)
            if line.agent_id != peer.agent_id:  # it was made for a stranger, or is connected anew
                line.agent_id, line.options = peer.agent_id, abilities(peer)
                line.session = self._new_session(peer, "")
            return line
        except BaseException:
            self._returned()
            raise

    def ready(self, peer: Peer, kind: str) -> list[Line]:
        """The idle lines of a kind to a peer, to take one from the end, and to put it back.

        Whoever takes one stands in `busy` until it is put back or closed, and calls `look` behind that when
        the lines are not open any more.
        """
        return self._idle.setdefault((peer.endpoint, kind), [])

    def _take_idle(self, peer: Peer, kind: str) -> Line | None:
        idle = self._idle.get((peer.endpoint, kind))
        while idle:
            try:
                line = idle.pop()
            except IndexError:  # another thread was quicker
                return None
            if (kind == "tcp" or line.agent_id == peer.agent_id) and line.transport.idle():
                return line
            line.transport.close()
        return None

    def _unix(self, peer: Peer, forced: bool, deadline: float) -> Line | None:
        line = self._take_idle(peer, "unix")
        if line is not None:
            return line
        if not forced and (
            peer.agent_id in self._without_lane or not (peer.details.get("lane") and is_direct(peer))
        ):
            return None
        try:
            stream, nonce = fastlane.connect(peer.agent_id, peer.endpoint, deadline)
        except PeerLost:
            if forced:
                raise
            self._without_lane.add(peer.agent_id)
            return None
        options = {**abilities(peer), "allocate": stream.allocate, "proved": stream.proves}
        binding = f"/{nonce}"
        session = self._new_session(peer, binding)
        return Line(stream, "unix", peer.endpoint, peer.agent_id, binding, options, session=session)

    def _tcp(self, peer: Peer, deadline: float) -> Line:
        settle(peer.endpoint, deadline)
        channel = Channel(self._context, peer.endpoint)
        return Line(channel, "tcp", peer.endpoint, "")

    def give(self, line: Line) -> None:
        """Return a line on which nothing is outstanding."""
        line.proved = True
        # Over inproc nothing tells that the peer was replaced, and a new channel costs little.
        lasting = line.kind == "unix" or not line.endpoint.startswith("inproc://")
        with self._changed:
            idle = self._idle.setdefault((line.endpoint, line.kind), [])
            keep = lasting and len(idle) < MAX_IDLE and not self.closed.is_set()
            if keep:
                idle.append(line)
                self._in_use -= 1
        if not keep:
            self.discard(line)  # in use until it is closed: `close` waits for that

    def discard(self, line: Line) -> None:
        """Close a line that cannot be used again: its reply never came."""
        line.transport.close()
        self._returned()

    def forget(self, endpoint: str) -> None:
        """Close the idle lines of an endpoint; every way is tried again."""
        with self._changed:
            idle = [line for kind in ("unix", "tcp") for line in _emptied(self._idle.get((endpoint, kind)))]
            self._without_lane.clear()
            self._in_use += len(idle)  # until they are closed: `close` waits for that
        for line in idle:
            self.discard(line)

    def look(self) -> None:
        """Have `close` look again whether anything is in use."""
        with self._changed:
            self._changed.notify_all()

    def _returned(self) -> None:
        with self._changed:
            self._in_use -= 1
            self._changed.notify_all()

    def close(self, timeout: float = 2.0) -> None:
        """Refuse new calls, end waiting ones with AgentClosed, close every line."""
        self.open = False
        self.closed.set()
        with self._changed:
            self._changed.wait_for(lambda: not (self._in_use or self.busy), timeout)
            idle = [line for lines in self._idle.values() for line in _emptied(lines)]
        for line in idle:
            line.transport.close()


def _emptied(lines: list[Line] | None) -> Iterator[Line]:
    """What was in the list, which other threads may use meanwhile."""
    while lines:
        with contextlib.suppress(IndexError):
            yield lines.pop()
