"""Laned: an exchange whose plain messages a compiled lane makes and judges; Python has all others.

Both use one socket::

    reading   next message                          then
    lane      one for the lane, which holds         lane
    lane      any other, whole or in part           stream: has what was read, and the descriptors
    stream    taken and judged by the session       lane, unless much or descriptors were read ahead
    either    the connection is over                PeerLost, AgentClosed

What is sent goes through the lane when it is small, in the lane's serializer, and nobody else writes
to the stream; through the stream otherwise.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from ..protocol.errors import AgentClosed, RemoteProtocolError
from ..protocol.frames import Buffer
from ..protocol.message import Message
from ..protocol.session import Session
from .compiled import LANE, LIMIT, LaneError
from .exchange import Otherwise, UnixExchange, refuse
from .link_stream import LinkStream
from .unix import FOREVER, RECEIVING, SENDING, SLICE

if TYPE_CHECKING:
    from . import _lane

_AT_ONCE = 1e-9
"""Seconds in which something goes at once or not at all; with 0 the lane would give back a part of it."""


class Laned(UnixExchange):
    """One end of a connection; arguments as `Exchange`.

    Args:
        stream: taken over.
        session: of the connection.
        count: gives the next counter of this end's epoch.
        lane: over the same socket; taken over.
        otherwise: see `Exchange`.
    """

    __slots__ = ("_in_stream", "_lane", "_name", "_suite", "_taken")

    def __init__(
        self,
        stream: LinkStream,
        session: Session,
        count: Callable[[], int],
        lane: _lane.Lane,
        otherwise: Otherwise = refuse,
    ) -> None:
        super().__init__(stream, session, count, otherwise)
        self._lane = lane
        self._name, self._suite = session.serializer, session.suite
        self._taken: deque[Message] = deque()
        self._in_stream = True
        self._turn_to_lane()

    def _turn_to_lane(self) -> None:
        """Let the lane read on from what the stream has read too far, or the stream when that is much."""
        ahead = self.stream.take_ahead()
        if ahead is not None:
            self._lane.feed(ahead)
            self._in_stream = False

    def _turn_to_stream(self) -> None:
        """Let the stream read on: the next message is not for the lane."""
        try:
            unread = self._lane.unread()
        except LaneError as exc:  # closed meanwhile
            self._fail(exc)
        self.stream.go_on(*unread)
        self._in_stream = True

    def send(
        self,
        content: object,
        deadline: float,
        *,
        answers: Message | None = None,
        serializer: str | None = None,
        packed: tuple[str, Buffer] | None = None,
    ) -> str:
        """See `Exchange.send`."""
        packed = packed or self.session.pack(content, serializer, answers)
        body = self._plain(packed, answers)
        if body is None:
            return super().send(None, deadline, answers=answers, packed=packed)
        left = deadline - monotonic()
        with self._sending:
            try:
                message = body if answers is None else (body, answers.msgid)
                return self._lane.post((message,), left if left > 0 else _AT_ONCE)[0][0]
            except LaneError as exc:
                self._fail(exc, SENDING)

    def send_many(
        self, messages: Sequence[tuple[Any, Message | None]], deadline: float, *, packed: bool = False
    ) -> list[str]:
        """See `UnixExchange.send_many`."""
        pack = self.session.pack
        every = messages if packed else [(pack(each, answers=asked), asked) for each, asked in messages]
        given: list[bytes | tuple[bytes, str]] = []
        for each, asked in every:
            body = self._plain(each, asked)
            if body is None:
                return super().send_many(every, deadline, packed=True)
            given.append(body if asked is None else (body, asked.msgid))
        with self._sending:
            try:
                return self._lane.post(given, max(_AT_ONCE, deadline - monotonic()))[0]
            except LaneError as exc:
                self._fail(exc, SENDING)

    def push(self, packed: tuple[str, Buffer], answers: Message | None, fd: int = -1) -> bool:
        """See `UnixExchange.push`."""
        body = self._plain(packed, answers, pushed=True) if fd < 0 else None
        if body is not None:
            with self._sending:
                pipe = self.pipe
                if pipe is not None and pipe.ready:
                    try:
                        _, rest = self._lane.post((body if answers is None else (body, answers.msgid),), 0.0)
                    except LaneError:
                        pipe.end()
                        return False
                    if rest:
                        pipe.keep(rest)
                    return True
        return super().push(packed, answers, fd)

    def _plain(
        self, packed: tuple[str, Buffer], answers: Message | None, *, pushed: bool = False
    ) -> bytes | None:
        """What the lane would send for a content that was expressed; None when it is none for it, or now."""
        if self.stream.diverted and not pushed:
            return None
        name, body = packed
        if name != self._name or type(body) is not bytes or len(body) > LIMIT:
            return None
        ours = self.session.asks if answers is None else answers.suite == self._suite
        return body if ours else None

    def receive(self, deadline: float, closed: threading.Event | None = None) -> Message:
        """See `Exchange.receive`."""
        taken = self._taken
        while not taken:
            if self._in_stream:
                self._read_on(deadline, closed)
                continue
            if closed is not None and closed.is_set():
                raise AgentClosed("the agent was stopped while a call was waiting")
            try:
                wait = -1.0 if deadline == FOREVER else max(0.0, min(SLICE, deadline - monotonic()))
                found = self._lane.take(wait)
            except LaneError as exc:
                if exc.args[0] != "late":
                    self._fail(exc)
                if monotonic() < deadline:
                    continue
                raise self.stream.late(RECEIVING) from None
            if found is None:
                self._turn_to_stream()
            else:
                taken.extend(map(self.session.take, found))
        return taken.popleft()

    def ready(self, deadline: float, of: str = "") -> Sequence[Message | bytes]:
        """See `UnixExchange.ready`."""
        lane = self._lane
        came: list[Message | bytes] = []
        if not (self._taken or self._in_stream):
            try:
                found = lane.take(0.0)
            except LaneError as exc:
                if exc.args[0] != "late":
                    self._fail(exc)
                self.more = False
                return came
            if found is not None:
                for plain in found:
                    came.append(plain[0] if plain[1] == of else self.session.take(plain))
                self.more = lane.at != lane.have
                return came
            self._turn_to_stream()
        if self._taken or self.stream.comes(0.0):
            came += self.receive_many(deadline)
        self.more = self.stream.ahead if self._in_stream else lane.at != lane.have
        return came

    def receive_many(self, deadline: float, closed: threading.Event | None = None) -> list[Message]:
        """See `UnixExchange.receive_many`."""
        found = [self.receive(deadline, closed), *self._taken]
        self._taken.clear()
        return found

    def _read_on(self, deadline: float, closed: threading.Event | None) -> None:
        """Take one message from the stream, and go back to the lane with what was read too far."""
        session, stream = self.session, self.stream
        frames = stream.receive(deadline, closed)
        message = self.opened(frames)
        self._lane.last = session.last
        self._turn_to_lane()
        if message is not None:
            self._taken.append(message)

    def _fail(self, error: Exception, direction: int = RECEIVING) -> NoReturn:
        """Close the stream as well, and say what happened to the lane."""
        stream, word = self.stream, error.args[0]
        if word in ("closed", "forked"):
            stream.close()
        stream.lose()
        if word == "descriptor":
            raise RemoteProtocolError(f"{stream.peer} sent a {word} that cannot be") from None
        if word == "unsent":
            raise stream.late(SENDING) from None
        raise stream.gone(direction) from None

    def close(self) -> None:
        """See `Exchange.close`."""
        self._lane.close()
        self.stream.close()


def exchange_of(
    stream: LinkStream, session: Session, count: Callable[[], int], otherwise: Otherwise = refuse
) -> UnixExchange:
    """An exchange over the compiled lane where there is one and the session can use it, else a plain one.

    Args:
        stream: over which both ends know each other; taken over.
        session: of the connection.
        count: gives the next counter of this end's epoch.
        otherwise: see `Exchange`.
    """
    terms = session.terms() if LANE is not None else None
    if LANE is None or terms is None:
        return UnixExchange(stream, session, count, otherwise)
    lane = LANE(stream.fileno(), session.asks, *terms, count, session.last)
    return Laned(stream, session, count, lane, otherwise)
