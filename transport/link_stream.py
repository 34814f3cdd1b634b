"""LinkStream: five frames over a connected Unix stream socket; the layout of a message stands in `.framing`.

A descriptor that comes with a message waits for `take_descriptor` until the next message is received.
"""

from __future__ import annotations

import os
import select
import socket as sockets
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Protocol

from ..protocol.errors import AgentClosed, CallTimeout, LocalProtocolError, RemoteProtocolError
from ..protocol.frames import MAX_HEADER, MAX_SIGNATURE, Buffer
from ..shm import machine
from .descriptors import Descriptors
from .framing import (
    CARRYING,
    HEAD,
    INLINE,
    PLAIN,
    check_head,
    compose,
)
from .transport import plain_memory
from .unix import NO_WAIT, QUICK, RECEIVING, SENDING, UnixEnd

_pack, _unpack, _HEAD_SIZE = HEAD.pack, HEAD.unpack_from, HEAD.size
_PIECE = 1 << 16  # sent at once, so that a peer that takes little at a time cannot stretch a deadline
_ONE_FD = sockets.CMSG_LEN(4) if machine.LANE else 0  # CMSG_SPACE would have room for two
_PEEK = NO_WAIT | int(sockets.MSG_PEEK)
_HUNG_UP = getattr(select, "POLLRDHUP", 0)
_CLOEXEC = int(getattr(sockets, "MSG_CMSG_CLOEXEC", 0))
_TAKE = _CLOEXEC | NO_WAIT


class Send(Protocol):
    """As `LinkStream.send`."""

    def __call__(self, frames: Sequence[Buffer], deadline: float) -> None: ...  # noqa: D102


class LinkStream(UnixEnd):
    """A `Transport` over a connected AF_UNIX stream socket, which it takes over.

    `close` may come from any thread. A `send` that raised anything but LocalProtocolError has closed it.

    Args:
        socket: connected, SOCK_STREAM.
        peer: whom error messages name.

    Attributes:
        diverted: all that is sent is written by what `divert` was given.
        on_rest: called before the rest of a message is received, which may have to be waited for.
        take_descriptor: gives the descriptor that came with the message received last, the caller's from
            now on; -1 without one.
    """

    def __init__(self, socket: sockets.socket, peer: str = "the peer") -> None:
        super().__init__(socket, peer)
        self._send_bytes, self._receive_bytes = socket.send, socket.recvmsg
        self._rest, self._at = b"", 0
        self._fds = Descriptors()
        self.take_descriptor = self._fds.take
        self.diverted = False
        self.on_rest: Callable[[], object] = bool
        self._inside = False

    def send(self, frames: Sequence[Buffer], deadline: float) -> None:
        """Send five frames.

        Raises:
            LocalProtocolError, PeerLost, CallTimeout, AgentClosed: see `Transport`.
        """
        self._sending = True
        try:
            data, *more = compose(frames)
            try:
                sent = 0 if more or self._ended else self._send_bytes(data, NO_WAIT)
            except TimeoutError:  # of a signal's handler: it may have gone
                raise
            except OSError:
                sent = 0
            if sent != len(data):
                for piece in (memoryview(data)[sent:], *more):
                    self._push(memoryview(piece), deadline)
        except LocalProtocolError:
            raise
        except BaseException:
            self._end()
            raise
        finally:
            self._sending = False
            if self._ended:
                self._release()

    def receive(self, deadline: float, closed: threading.Event | None = None) -> list[Buffer]:
        """The next five frames.

        Raises:
            PeerLost, CallTimeout, AgentClosed, RemoteProtocolError: see `Transport`.
        """
        self._receiving = True
        try:
            if not (self._rest or self._ended):
                left = deadline - monotonic()
                try:
                    self._rest, rights, flags, _ = self._receive_bytes(
                        INLINE, _ONE_FD, _CLOEXEC if left > QUICK else _TAKE
                    )
                except TimeoutError:  # of a signal's handler: something may have been read
                    raise
                except OSError:
                    rights, flags = (), _CLOEXEC
                if rights or flags != _CLOEXEC:
                    self._fds.keep(rights, flags)
            return self._next() or self._read(deadline, closed)
        except (CallTimeout, AgentClosed):
            if self._inside or self._rest:
                self._end()
            raise
        except BaseException:
            self._end()
            raise
        finally:
            self._receiving = False
            if self._ended:
                self._release()

    def send_many(self, messages: Sequence[Sequence[Buffer]], deadline: float) -> None:
        """Send messages, with as few writes as their sizes allow; errors as `send`."""
        pieces = [compose(frames) for frames in messages]
        if self.diverted or any(len(each) > 1 for each in pieces):
            for frames in messages:
                self.send(frames, deadline)
            return
        data = b"".join([each for (each,) in pieces])
        self._sending = True
        try:
            self._push(memoryview(data), deadline)
        except BaseException:
            self._end()
            raise
        finally:
            self._sending = False
            if self._ended:
                self._release()

    def received(self) -> list[Buffer] | None:
        """The next message when it came whole with the last one, and has all its bytes in it; else None."""
        return None if self._ended else self._next()

    def divert(self, send: Send) -> None:
        """Have all that is sent from now on sent by ``send``, which uses `write_now`; nobody may send now."""
        self.diverted = True
        self.send = send

    def lose(self) -> None:
        """End the connection because the other side has gone."""
        self._end()
        self._release()

    def go_on(self, data: bytes, fds: Sequence[int]) -> None:
        """Receive these bytes and descriptors first, which somebody else has read from the socket."""
        self._rest, self._at = data, 0
        self._fds.extend(fds)

    @property
    def ahead(self) -> bool:
        """Whether something was received beyond the last message."""
        return bool(self._rest)

    def take_ahead(self) -> bytes | None:
        """What was received beyond the last message, now the caller's; None for much, or descriptors."""
        if self._fds or len(self._rest) - self._at > INLINE:
            return None
        ahead = self._rest[self._at :]
        self._rest, self._at = b"", 0
        return ahead

    def comes(self, deadline: float) -> bool:
        """Wait until there is something to receive, or the connection is over; False at the deadline."""
        return bool(self._rest) or super().comes(deadline)

    def idle(self) -> bool:
        """False when the other side has gone, or has sent what nobody asked for."""
        if self._ended or self._rest:
            return False
        try:
            self._socket.recv(1, _PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def hung_up(self) -> bool:
        """True when the other side has gone, whatever it has sent before."""
        if self._ended:
            return True
        poll = select.poll()
        try:
            poll.register(self._socket, _HUNG_UP)
        except ValueError:  # closed meanwhile
            return True
        return bool(poll.poll(0))

    def _let_go(self) -> None:
        super()._let_go()
        self._fds.close()

    def _next(self) -> list[Buffer] | None:
        """The next message when it is whole here, and of the plain kind."""
        data, at = self._rest, self._at
        if len(data) - at < _HEAD_SIZE or self._fds:
            return None
        kind, a, b, c, d, e, extra = _unpack(data, at)
        if kind != PLAIN or extra or a > MAX_HEADER or d > MAX_SIGNATURE:
            return None
        at += _HEAD_SIZE
        a += at
        b += a
        c += b
        d += c
        e += d
        if e > len(data):
            return None
        self._at = e
        if e == len(data):
            self._rest, self._at = b"", 0
        return [data[at:a], data[a:b], data[d:e], data[b:c], data[c:d]]

    def _push(self, data: memoryview, deadline: float) -> None:
        """Send all of it."""
        while data:
            attempt = partial(self._send_bytes, data[:_PIECE], NO_WAIT)
            data = data[self._wait(SENDING, attempt, deadline) :]

    def _read(self, deadline: float, closed: threading.Event | None) -> list[Buffer]:
        """The next message in whatever pieces it comes."""
        self.on_rest()
        self._fds.withdraw()
        kind, a, b, c, d, e, extra = _unpack(self._take(_HEAD_SIZE, deadline, closed))
        self._inside = True
        check_head(kind, (a, b, c, d, e), extra)
        front = self._take(a + b + c + d, deadline, closed)
        content = self._take(e, deadline, closed) if e <= INLINE else self._fill(e, deadline, closed)
        if kind == CARRYING:
            self._fds.offer()
        if self._at == len(self._rest):
            self._rest, self._at = b"", 0
            if self._fds.waiting:
                raise RemoteProtocolError("a descriptor came with a message that has none")
        self._inside = False
        b += a
        c += b
        return [front[:a], front[a:b], content, front[b:c], front[c:]]

    def _take(self, size: int, deadline: float, closed: threading.Event | None) -> bytes:
        while len(self._rest) - self._at < size:
            data, rights, flags, _ = self._wait(
                RECEIVING, partial(self._receive_bytes, INLINE, _ONE_FD, _TAKE), deadline, closed
            )
            self._fds.keep(rights, flags)
            if not data:
                raise self.gone(RECEIVING)
            self._rest, self._at = self._rest[self._at :] + data, 0
        start, self._at = self._at, self._at + size
        return self._rest[start : self._at]

    def _fill(self, size: int, deadline: float, closed: threading.Event | None) -> Buffer:
        """As `_take`, into memory of its own; what a peer only announces costs none."""
        content = plain_memory(size)
        view = memoryview(content)
        ready = self._take(min(size, len(self._rest) - self._at), deadline, closed)
        view[: len(ready)] = ready
        view = view[len(ready) :]
        while view:
            attempt = partial(self._socket.recv_into, view, 0, NO_WAIT)
            received = self._wait(RECEIVING, attempt, deadline, closed)
            if not received:
                raise self.gone(RECEIVING)
            view = view[received:]
        return content


def peer_credentials(socket: sockets.socket) -> tuple[int, int]:
    """Process id and user id of who made the other end, as the kernel knows them (Linux)."""
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", socket.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, size))
    return pid, uid


def peer_pid(socket: sockets.socket) -> int:
    """Process id of who made the other end."""
    return peer_credentials(socket)[0]


def peer_uid(socket: sockets.socket) -> int:
    """User id of who made the other end."""
    return peer_credentials(socket)[1]


def has_ended(pid: int, wait: float) -> bool:
    """True when another process is over, or is within ``wait`` seconds; False where that cannot be seen."""
    if pid in (0, os.getpid()) or not machine.ENDINGS:
        return False
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except OSError:  # no descriptor is left, an older kernel
        return False
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(wait * 1000))
    finally:
        os.close(fd)
