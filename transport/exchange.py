"""Exchange: messages over a connection whose ends know each other: its transport and its session, together.

A request must not be sent behind one of a higher counter, and two messages must not mix: whatever is sent is
counted, sealed and written under one lock. One thread may receive meanwhile::

    message that came                 what happens
    holds                             handed out
    refused by the session            `otherwise` is asked: it gives a message to hand out, or None, or raises
    the connection is over            PeerLost, AgentClosed; what had come whole was handed out before
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Any, Protocol

from ..protocol.errors import ProtocolError
from ..protocol.frames import Buffer
from ..protocol.message import Message
from ..protocol.session import Session
from .link_stream import LinkStream
from .pipe import Pipe
from .transport import Transport


class Sealing(Protocol):
    """What makes and judges the messages of a connection, as a `Session` does."""

    def seal(  # noqa: D102
        self,
        content: object,
        ms: int,
        counter: int,
        *,
        answers: Message | None = None,
        serializer: str | None = None,
        packed: tuple[str, Buffer] | None = None,
    ) -> list[Buffer]: ...

    def open(self, frames: list[Buffer]) -> Message: ...  # noqa: D102


Otherwise = Callable[[list[Buffer], ProtocolError], Message | None]
"""Gets frames that the session refused, and why."""


def refuse(frames: list[Buffer], error: ProtocolError) -> Message | None:
    """Raise it: nobody knows better."""
    raise error


class Exchange:
    """One end of such a connection.

    Args:
        transport: taken over.
        session: of the connection.
        count: gives the next counter of this end's epoch.
        otherwise: asked about what the session refuses, in the thread that receives.

    Attributes:
        asked: id of the request that `ask` made last; empty before it has one.
        sent: that request went out whole.
    """

    __slots__ = ("_count", "_sending", "asked", "otherwise", "sent", "session", "transport")

    def __init__(
        self, transport: Transport, session: Sealing, count: Callable[[], int], otherwise: Otherwise = refuse
    ) -> None:
        self.transport = transport
        self.session = session
        self.otherwise = otherwise
        self._count = count
        self._sending = threading.Lock()
        self.asked, self.sent = "", False

    def ask(
        self, content: object, deadline: float, closed: threading.Event, serializer: str | None = None,
        packed: tuple[str, Buffer] | None = None,
    ) -> Message:  # fmt: skip
        """Send a request, and wait for the next message; one thread alone, of an end that asks.

        Args:
            content: see `Session.seal`.
            deadline: in monotonic seconds, of both.
            closed: ends the wait when it is set.
            serializer: of the content; None for that of the session.
            packed: serializer and bytes of a content that was expressed before.

        Raises:
            ProtocolError, PeerLost, CallTimeout, AgentClosed: as `send` and `receive`; `sent` tells which.
        """
        self.asked, self.sent = "", False
        session, transport = self.session, self.transport
        with self._sending:
            now, count = time_ns() // 1_000_000, self._count()
            frames = session.seal(content, now, count, serializer=serializer, packed=packed)
            self.asked = str(frames[3], "ascii")  # its server may have it before the next line is reached
            try:
                transport.send(frames, deadline)
            except BaseException:
                self.asked = ""
                raise
        self.sent = True
        return self.receive(deadline, closed)

    def send(
        self,
        content: object,
        deadline: float,
        *,
        answers: Message | None = None,
        serializer: str | None = None,
        packed: tuple[str, Buffer] | None = None,
    ) -> str:
        """Send a request, or the answer to one; any thread.

        Args:
            content: see `Session.seal`, as the other options.
            deadline: in monotonic seconds.
            answers: the request that is answered.
            serializer: of the content.
            packed: serializer and bytes of a content that was expressed before.

        Returns:
            The message id.

        Raises:
            SerializeError, LocalProtocolError: as `Session.seal`; nothing was sent.
            PeerLost, CallTimeout, AgentClosed: see `Transport`.
        """
        with self._sending:
            frames = self.session.seal(
                content, time_ns() // 1_000_000, self._count(), answers=answers, serializer=serializer,
                packed=packed,
            )  # fmt: skip
            self.transport.send(frames, deadline)
        return str(frames[3], "ascii")

    def transmit(self, frames: Sequence[Buffer], deadline: float) -> None:
        """Send frames that somebody else has made; errors as `send`."""
        with self._sending:
            self.transport.send(frames, deadline)

    def receive(self, deadline: float, closed: threading.Event | None = None) -> Message:
        """The next message, verified.

        Args:
            deadline: in monotonic seconds.
            closed: ends the wait when it is set; None where nothing does.

        Raises:
            PeerLost, CallTimeout, AgentClosed, RemoteProtocolError: see `Transport`.
            ProtocolError: what `otherwise` raises.
        """
        while True:
            message = self.opened(self.transport.receive(deadline, closed))
            if message is not None:
                return message

    def opened(self, frames: list[Buffer]) -> Message | None:
        """A message that came, verified; None for one of which `otherwise` has taken care."""
        try:
            return self.session.open(frames)
        except ProtocolError as error:
            return self.otherwise(frames, error)

    def close(self) -> None:
        """End the connection; any thread."""
        self.transport.close()


class UnixExchange(Exchange):
    """One end of a Unix connection.

    Args:
        stream: the transport; taken over.
        session: of the connection.
        count: as for `Exchange`.
        otherwise: as for `Exchange`.

    Attributes:
        pipe: by which all is sent after `divert`; None before.
        more: whether `ready` may have something without anything more having come.
    """

    __slots__ = ("more", "pipe", "session", "stream")

    def __init__(
        self, stream: LinkStream, session: Session, count: Callable[[], int], otherwise: Otherwise = refuse
    ) -> None:
        super().__init__(stream, session, count, otherwise)
        self.stream = stream
        self.session: Session = session
        self.pipe: Pipe | None = None
        self.more = True

    def send_many(
        self, messages: Sequence[tuple[Any, Message | None]], deadline: float, *, packed: bool = False
    ) -> list[str]:
        """Send contents, each with the request that it answers, in as few writes as possible; as `send`.

        With ``packed`` each content is a serializer and its bytes.
        """
        seal, ms, count = self.session.seal, time_ns() // 1_000_000, self._count
        with self._sending:
            if packed:
                sealed = [seal(None, ms, count(), answers=asked, packed=each) for each, asked in messages]
            else:
                sealed = [seal(content, ms, count(), answers=asked) for content, asked in messages]
            self.stream.send_many(sealed, deadline)
        return [str(frames[3], "ascii") for frames in sealed]

    def divert(self) -> Pipe:
        """Never wait for the other side from now on to send something; `release` gives back what that takes.

        Raises:
            OSError: when a descriptor is missing.
        """
        with self._sending:
            pipe = self.pipe = Pipe(self.stream)
        return pipe

    def push(self, packed: tuple[str, Buffer], answers: Message | None, fd: int = -1) -> bool:
        """Send a message by the pipe, or keep what the kernel does not take of it.

        Args:
            packed: serializer and bytes of the content, which must not change until they went.
            answers: the request that is answered.
            fd: descriptor that comes with the message, for whoever receives it; it stays the caller's.

        Returns:
            False when what was pushed before is left, or the connection is over: nothing of the message went
            or will go.

        Raises:
            LocalProtocolError: when the wire cannot carry it.
        """
        with self._sending:
            if self.pipe is None:
                return False
            ms, count = time_ns() // 1_000_000, self._count()
            return self.pipe.push(self.session.seal(None, ms, count, answers=answers, packed=packed), fd)

    def flush(self) -> bool:
        """Write more of what the pipe has kept; True when it is ready."""
        with self._sending:
            return self.pipe is not None and self.pipe.flush()

    def release(self) -> None:
        """`close`, and close the pipe, whose descriptor nobody watches any longer. Again does nothing."""
        self.close()
        with self._sending:
            if self.pipe is not None:
                self.pipe.close()

    def ready(self, deadline: float, of: str = "") -> Sequence[Message | bytes]:
        """Messages that have come, verified, where the next may be asked for at once; empty when none has.

        Args:
            deadline: in monotonic seconds, for the rest of one that has begun to come.
            of: a message id: of those that have it, and the session's serializer, the content may be given
                alone.

        Raises:
            PeerLost, CallTimeout, AgentClosed, RemoteProtocolError, ProtocolError: as `receive`.
        """
        found = self.receive_many(deadline) if self.stream.comes(0.0) else []
        self.more = self.stream.ahead
        return found

    def receive_many(self, deadline: float, closed: threading.Event | None = None) -> list[Message]:
        """The next message and those that came whole with it, verified; errors as `receive`."""
        found = [self.receive(deadline, closed)]
        while (frames := self.stream.received()) is not None:
            if (message := self.opened(frames)) is not None:
                found.append(message)
        return found

    def fileno(self) -> int:
        """The socket's number; -1 when it is closed."""
        return self.stream.fileno()
