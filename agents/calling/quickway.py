"""Quick way: one call over an idle line, on the shortest path from the proxy to the socket.

It knows one case: a line with a session is idle, the message fits the session, and the reply comes.
Everything else is handed to `Requester`, whose rules hold for both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any

from ...protocol.errors import PeerLost
from ...protocol.frames import Buffer
from ..sockets import inherited
from ..wire import Protocol
from .endings import until
from .lines import MAX_IDLE, Line, Lines
from .peers import Peer

if TYPE_CHECKING:
    from .reply import Reply

ReadOther = Callable[[Peer, Line, list[Buffer], Buffer], "Reply | None"]
LineFailed = Callable[[Peer, BaseException, Buffer, float], "Reply | None"]
Refused = Callable[[Peer, "Reply", object, float, float], "Reply"]


class QuickWay:
    """Calls one peer; safe from any thread.

    Args:
        lines: of the agent.
        kind: of the lines, ``unix`` or ``tcp``.
        protocol: of the agent.
        peer: whom it leads to.
        read_other: reads a reply that the session could not.
        line_failed: gets the result of a call whose line failed, or raises.
        refused: gets the result of a call that was refused, or raises.
        closed: ends the wait for a reply when it is set.

    Attributes:
        trusted: True when pickles of the peer are unpickled in full.
    """

    def __init__(
        self,
        lines: Lines,
        kind: str,
        protocol: Protocol,
        peer: Peer,
        read_other: ReadOther,
        line_failed: LineFailed,
        refused: Refused,
        closed: threading.Event,
    ) -> None:
        self.trusted = peer.key_id in protocol.codec.trusted
        self._peer = peer
        self._agent_id = peer.agent_id
        self._ready = lines.ready(peer, kind)
        self._looks = kind == "tcp"  # a ZeroMQ socket takes messages for a peer that has gone
        self._lines = lines
        self._busy = lines.busy
        self._closed = closed
        self._read_other = read_other
        self._line_failed = line_failed
        self._refused = refused
        self._forks = inherited.forks()

    def ask(self, content: object, timeout: float) -> Any:
        """Content of the reply; None when this way is not to be taken, and nothing was done.

        Raises:
            CallTimeout, PeerLost, SerializeError, AgentClosed: as `Agent.request`.
        """
        if not self._ready or inherited.forked_since(self._forks):
            return None
        # Counted before it is looked whether they are open, as `Lines.close` closes them before it counts.
        self._busy.append(self)
        try:
            return self._ask(content, timeout) if self._lines.open else None
        finally:
            self._busy.pop()
            if not self._lines.open:
                self._lines.look()

    def _ask(self, content: object, timeout: float) -> Any:
        ready = self._ready
        try:
            line = ready.pop()
        except IndexError:  # another thread was quicker
            return None
        session, transport = line.session, line.transport
        if session is None:
            self._give_back(line)
            return None
        if line.agent_id != self._agent_id or (self._looks and not transport.idle()):
            transport.close()
            return None
        deadline = monotonic() + timeout
        try:
            frames = session.ask(content, time_ns() // 1_000_000)
        except BaseException:
            self._give_back(line)
            raise
        if frames is None:
            self._give_back(line)
            return None
        msgid, sent, reply = frames[3], False, None
        try:
            transport.send(frames, deadline)
            sent = True
            got = transport.receive(deadline, self._closed)
            found = session.answer(got, msgid)
            if found is None:
                reply = self._read_on(line, got, msgid, deadline)
                value = reply.content
            else:
                value = found[0]
        except BaseException as exc:
            transport.close()
            if isinstance(exc, PeerLost) and not sent:
                return None
            with until(self._closed):
                recovered = self._line_failed(self._peer, exc, msgid, deadline)
            if recovered is None:
                raise
            return recovered.content
        if reply is not None and reply.refusal is not None:
            transport.close()
            with until(self._closed):
                return self._refused(self._peer, reply, content, deadline - timeout, deadline).content
        self._give_back(line)
        return value

    def _read_on(self, line: Line, frames: list[Buffer], msgid: Buffer, deadline: float) -> Reply:
        while (reply := self._read_other(self._peer, line, frames, msgid)) is None:
            frames = line.transport.receive(deadline, self._closed)
        return reply

    def _give_back(self, line: Line) -> None:
        if len(self._ready) < MAX_IDLE and self._lines.open:
            self._ready.append(line)
        else:
            line.transport.close()
