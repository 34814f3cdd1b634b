"""Stream: five frames over a connected Unix stream socket, large contents beside it in shared memory.

The layout of a message stands in `.framing`.

A content over `INLINE` bytes lies in a block (`Lending`) if the sender can have one, and else goes inline.
The descriptor of a block goes with the first message that uses it, as SCM_RIGHTS. Notes come with whatever
message goes next, and take effect before its content is looked at.

A descriptor of which only the content tells what it is (flag 8) waits for `Stream.take_descriptor` until the
next message is received.
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
    IN_BLOCK,
    INLINE,
    PLAIN,
    PROVED,
    WITH_FD,
    check_head,
    checked,
    compose,
)
from .lending import Lending
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
    """As `Stream.send`."""

    def __call__(self, frames: Sequence[Buffer], deadline: float) -> None: ...  # noqa: D102


class Stream(UnixEnd):
    """A `Transport` over a connected AF_UNIX stream socket, which it takes over.

    `close` may come from any thread. A `send` that raised anything but LocalProtocolError has closed it.

    Args:
        socket: connected, SOCK_STREAM.
        peer: whom error messages name.
        blocks: large contents may go in shared memory, where there is any.

    Attributes:
        referred: the content that was received last lay in a block, which only its sender can write.
        inlined: contents over `INLINE` bytes that went over the socket because no block was to be had.
        notes: that go with the message that is sent next.
        diverted: all that is sent is written by what `divert` was given.
        on_rest: called before the rest of a message is received, which may have to be waited for.
        take_descriptor: gives the descriptor that came with the message received last, the caller's from
            now on; -1 without one.
    """

    def __init__(self, socket: sockets.socket, peer: str = "the peer", *, blocks: bool = True) -> None:
        super().__init__(socket, peer)
        self.inlined = 0
        self.referred = False
        self._send_bytes, self._receive_bytes = socket.send, socket.recvmsg
        self._lending = Lending(peer, blocks=blocks)
        self.notes = self._lending.notes
        self._rest, self._at = b"", 0
        self._fds = Descriptors()
        self.take_descriptor = self._fds.take
        self.diverted = False
        self.on_rest: Callable[[], object] = bool
        self._inside = False

    def send(self, frames: Sequence[Buffer], deadline: float) -> None:
        """Send five frames; a large content that does not come from `allocate` is copied once.

        Raises:
            LocalProtocolError, PeerLost, CallTimeout, AgentClosed: see `Transport`.
        """
        self._sending = True
        try:
            if len(frames) != 5 or len(frames[2]) > INLINE or self.notes or self._ended:
                self._send_any(frames, deadline)
                return
            (data,) = compose(frames)
            try:
                sent = self._send_bytes(data, NO_WAIT)
            except TimeoutError:  # of a signal's handler: it may have gone
                raise
            except OSError:
                sent = 0
            if sent != len(data):
                self._push(memoryview(data)[sent:], deadline)
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
        """The next five frames; a content from a block is a private, writable view.

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
        if self.notes or self.diverted or any(len(each) > 1 for each in pieces):
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

    def allocate(self, size: int) -> bytearray | memoryview:
        """Writable memory for a content: of a block when it is large and there is one.

        After `send` its bytes must not be written again.
        """
        view = self._lending.allocate(size)
        return plain_memory(size) if view is None else view

    def proves(self, content: Buffer) -> bool:
        """True for a content in memory of `allocate` that the reader will see and nobody else can write."""
        return not (self._ended or self.diverted) and self._lending.holds(content)

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
        self._lending.close()
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
        self.referred = False
        return [data[at:a], data[a:b], data[d:e], data[b:c], data[c:d]]

    def _send_any(self, frames: Sequence[Buffer], deadline: float) -> None:
        parts = checked(frames)
        content = parts.pop(2)
        large = len(content) > INLINE
        proved = PROVED if large and self.proves(content) else 0
        placed = self._lending.place(content) if large and not self._ended else None
        self.inlined += large and placed is None
        block_id, fd = placed or (0, -1)
        kind = PLAIN if placed is None else (IN_BLOCK if fd < 0 else WITH_FD) | proved
        notes = self._lending.take_notes()
        head = _pack(kind, *map(len, parts), len(content), block_id | len(notes) << 32)
        tail = struct.pack(f"<{len(notes)}i", *notes)
        if large and placed is None:
            self._push(memoryview(b"".join((head, *parts))), deadline)
            self._push(memoryview(content), deadline)
            self._push(memoryview(tail), deadline)
        else:
            inline = b"" if large else content
            self._push(memoryview(b"".join((head, *parts, inline, tail))), deadline, fd)

    def _push(self, data: memoryview, deadline: float, fd: int = -1) -> None:
        """Send all of it; a descriptor goes with the first byte."""
        rights = [(sockets.SOL_SOCKET, sockets.SCM_RIGHTS, struct.pack("i", fd))] if fd >= 0 else []
        while data:
            if rights:
                attempt = partial(self._socket.sendmsg, [data[:_PIECE]], rights, NO_WAIT)
            else:
                attempt = partial(self._send_bytes, data[:_PIECE], NO_WAIT)
            data, rights = data[self._wait(SENDING, attempt, deadline) :], []

    def _read(self, deadline: float, closed: threading.Event | None) -> list[Buffer]:
        """The next message in whatever pieces it comes."""
        self.on_rest()
        self._fds.withdraw()
        kind, a, b, c, d, e, extra = _unpack(self._take(_HEAD_SIZE, deadline, closed))
        self._inside = True
        block_id, count = extra & 0xFFFF_FFFF, extra >> 32
        check_head(kind, (a, b, c, d, e), block_id, count)
        self.referred, kind = bool(kind & PROVED), kind & ~PROVED
        front = self._take(a + b + c + d, deadline, closed)
        content: Buffer = b""
        if not block_id:
            content = self._take(e, deadline, closed) if e <= INLINE else self._fill(e, deadline, closed)
        self._lending.heed(struct.unpack(f"<{count}i", self._take(4 * count, deadline, closed)))
        if kind == CARRYING:
            self._fds.offer()
        elif block_id:
            content = self._lending.content_of(block_id, e, self._fds if kind == WITH_FD else None)
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
