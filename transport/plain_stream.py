"""PlainStream: messages on a connected stream socket, in Python; the same promises as the compiled stream.

A message is the head of `protocol.binding.HEAD`, then header, serializer name, message id, content and
signature. The socket never blocks: what cannot go on waits in a poll, which a close, a signal
or a deadline ends.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket as sockets
import struct
from collections.abc import Callable
from time import monotonic

from ..protocol.binding import HEAD, VERSION, Binding, Content
from ..protocol.errors import AgentClosed, CallTimeout, LocalProtocolError, PeerLost, RemoteProtocolError
from ..protocol.frames import MAX_CONTENT, MAX_HEADER, MAX_MSGID, MAX_SERIALIZER, Buffer
from ..shm import machine
from .descriptors import Descriptors
from .inherited import forked_since, forks, mine
from .transport import plain_memory

INLINE = 1 << 16
"""Bytes of the largest content that travels in one piece with the rest, and is received as ``bytes``."""

_SLICE = 3600.0 if machine.LANE else 0.2  # Ctrl-C and a close end a wait at once only on Linux
_FIRST_SLEEP = 0.01
_FIRST = 1 << 20  # bytes of memory that are taken for a large content before they are there
_MIB = float(1 << 20)
_SEND, _RECEIVE = "send", "receive"
_NO_SIGNAL = int(getattr(sockets, "MSG_NOSIGNAL", 0))
_CLOEXEC = int(getattr(sockets, "MSG_CMSG_CLOEXEC", 0))
_ONE_FD = sockets.CMSG_LEN(4) if machine.LANE else 0  # CMSG_SPACE would have room for two
_HUNG_UP = getattr(select, "POLLRDHUP", 0)

Received = tuple[bytes, bytes, bytes, Buffer]


class PlainStream:
    """Messages on a connected stream socket.

    One thread may send while another receives; `close` may come from any. A use of the socket sets
    ``_sending`` or ``_receiving`` first and then looks at ``_ended``; `_end` does it the other way round, so
    the number of the socket is not closed, and then another's, during a use.

    Args:
        sock: connected, SOCK_STREAM; taken over.
        peer: whom error messages name.
        max_content: bytes of the largest content that is sent or received.
        patience: seconds that a message which was begun may take, and one more for each MiB.
    """

    def __init__(
        self,
        sock: sockets.socket,
        peer: str = "the peer",
        max_content: int = MAX_CONTENT,
        patience: float = 30.0,
    ) -> None:
        self._socket = mine(lambda: sockets.socket(sock.family, sock.type, sock.proto, sock.detach()))
        self._socket.setblocking(False)
        self._carries = machine.LANE and sock.family == sockets.AF_UNIX
        self._forks = forks()
        self._peer, self.max_content, self._patience = peer, max_content, patience
        self._binding = Binding(0, b"", b"")
        self._rest, self._at = b"", 0  # received, and how much of it belongs to earlier messages
        self._begun = False  # to end now would lose the place in the bytes received
        self._sending = self._receiving = self._stopped = self._ended = False
        self._descriptors = Descriptors()
        self._writable, self._readable = _poll(self._socket, True), _poll(self._socket, False)

    def protect(self, suite: int, send_key: bytes, receive_key: bytes) -> None:
        """Seal all that is sent, and verify all that is received, from now on."""
        self._binding = Binding(suite, send_key, receive_key)

    def send(
        self,
        header: bytes,
        serializer: bytes,
        message_id: bytes,
        content: Content,
        deadline: float,
        descriptor: int = -1,
    ) -> None:
        """Send a message; a descriptor goes with its first byte.

        Raises:
            LocalProtocolError: for sizes that cannot be sent; nothing was sent, and the stream works on.
            PeerLost, CallTimeout, AgentClosed: the other side did not get it whole, and the stream is closed.
        """
        try:
            self._sending = True
            if self._ended or self._socket.fileno() < 0:
                raise self._gone(_SEND)
            parts, size = ((content,), len(content)) if type(content) is bytes else _flat(content)
            a, b, c = len(header), len(serializer), len(message_id)
            if a > MAX_HEADER or b > MAX_SERIALIZER or c > MAX_MSGID or size > self.max_content:
                raise LocalProtocolError(
                    f"the message cannot be sent: {_sizes(a, b, c, size, self.max_content)}"
                )
            if descriptor >= 0 and not self._carries:  # before a number is used up
                raise LocalProtocolError("a descriptor can be sent over a Unix socket only")
            head = HEAD.pack(VERSION, descriptor >= 0, a, b, c, self._binding.signature_size, 0, size)
            front = b"".join((head, header, serializer, message_id))
            limit = monotonic() + self._patience + size / _MIB
            if size <= INLINE:
                sealed, signature = self._binding.seal(front, parts)
                self._push(b"".join((front, *sealed, signature)), deadline, limit, descriptor)
                return
            self._push(front, deadline, limit, descriptor)
            for piece in self._binding.seal_pieces(front, parts):
                self._wait(_SEND, deadline, limit)
                self._push(piece, deadline, limit)
        except BaseException as exc:
            self._fail(exc, _SEND)
            raise
        finally:
            self._sending = False
            if self._ended:
                self._release()

    def receive(self, deadline: float) -> Received:
        """Header, serializer name, message id and content of the next message.

        Content up to `INLINE` bytes is ``bytes``, else writable memory that is the caller's own.

        Raises:
            PeerLost, AgentClosed: the other side is gone, and no whole message is left; closed here.
            CallTimeout: nothing by the deadline. Between messages the stream works on, else it is closed.
            RemoteProtocolError, SignatureError: what came breaks the rules; the stream is closed.
        """
        try:
            self._receiving = True
            if self._ended or self._socket.fileno() < 0:
                raise self._gone(_RECEIVE)
            limit = math.inf
            while True:
                rest, at = self._rest, self._at
                size, have, end = 0, len(rest) - at, 0
                if have >= HEAD.size:
                    version, flags, a, b, c, d, zero, size = HEAD.unpack_from(rest, at)
                    if (
                        (version, zero, flags & ~1) != (VERSION, 0, 0)
                        or a > MAX_HEADER
                        or b > MAX_SERIALIZER
                        or c > MAX_MSGID
                        or size > self.max_content
                    ):
                        sizes = _sizes(a, b, c, size, self.max_content)
                        raise RemoteProtocolError(
                            f"a message of version {version}, flags {flags:#x}: {sizes}"
                        )
                    header, serializer = at + HEAD.size, at + HEAD.size + a
                    message_id, content = serializer + b, serializer + b + c
                    end = content + size + d
                    if end <= len(rest) or (size > INLINE and content <= len(rest)):
                        break
                limit = min(limit, monotonic() + self._patience) if have else limit
                self._more(deadline, limit)
            self._begun, front = True, rest[at:content]
            if end <= len(rest):
                clear = self._binding.open(front, rest[content : content + size], rest[content + size : end])
                self._at = end
            else:
                self._at = content
                clear = self._take_large(front, size, d, deadline, limit)
            if flags or self._descriptors:
                self._settle(flags)
            if self._at == len(self._rest):
                self._rest, self._at = b"", 0
            return rest[header:serializer], rest[serializer:message_id], rest[message_id:content], clear
        except BaseException as exc:
            self._fail(exc, _RECEIVE)
            raise
        finally:
            self._receiving = self._begun = False
            if self._ended:
                self._release()

    def take_descriptor(self) -> int:
        """The descriptor that came with the message received last, now the caller's; -1 without one."""
        return self._descriptors.take()

    def ready(self, seconds: float) -> bool:
        """Wait until a message, a part of one, or the end can be received; False after so many seconds."""
        try:
            self._receiving = True
            deadline = monotonic() + seconds
            while not (self._rest or self._ended or self._socket.fileno() < 0):
                left = deadline - monotonic()
                if self._readable(max(0.0, min(left, _SLICE)) * 1000):
                    return True
                if left <= 0:
                    return False
            return True
        finally:
            self._receiving = False
            if self._ended:
                self._release()

    def idle(self) -> bool:
        """False when the other side has gone, or has sent what nobody asked for."""
        return not (self._ended or self._rest) and self._peek() is None

    def hung_up(self) -> bool:
        """True when the other side has gone, whatever it has sent before (which only Linux can see)."""
        if self._ended or not _HUNG_UP:
            return self._ended or self._peek() == b""
        poll = select.poll()
        try:
            poll.register(self._socket, _HUNG_UP)
        except ValueError:  # closed meanwhile
            return True
        return bool(poll.poll(0))

    def close(self) -> None:
        """End the connection, from any thread; a wait in another one ends with AgentClosed."""
        self._stopped = True
        self._end()
        self._release()

    def fileno(self) -> int:
        """The socket's number; -1 when it is closed."""
        return self._socket.fileno()

    def _push(self, data: Buffer, deadline: float, limit: float, descriptor: int = -1) -> None:
        """Send all of it."""
        while True:
            try:
                if descriptor < 0:
                    sent = self._socket.send(data, _NO_SIGNAL)
                else:
                    rights = [(sockets.SOL_SOCKET, sockets.SCM_RIGHTS, struct.pack("i", descriptor))]
                    sent = self._socket.sendmsg((data,), rights, _NO_SIGNAL)
                    descriptor = -1
            except BlockingIOError:
                sent = 0
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
            self._wait(_SEND, deadline, limit)

    def _more(self, deadline: float, limit: float) -> None:
        """Receive some bytes after those that are there."""
        rights, flags = (), _CLOEXEC
        while True:
            try:
                self._begun = True  # a signal's handler may raise when bytes have left the kernel
                if self._carries:
                    data, rights, flags, _ = self._socket.recvmsg(INLINE, _ONE_FD, _CLOEXEC)
                else:
                    data = self._socket.recv(INLINE)
                break
            except BlockingIOError:
                self._begun = False
                self._wait(_RECEIVE, deadline, limit)
        if rights or flags != _CLOEXEC:
            self._descriptors.keep(rights, flags)
        if not data:
            raise self._gone(_RECEIVE)
        self._rest, self._at = self._rest[self._at :] + data, 0

    def _take_large(
        self, front: bytes, size: int, signature_size: int, deadline: float, limit: float
    ) -> Buffer:
        """Receive a content into memory that grows with it, so that what is only announced costs none."""
        limit = min(limit, monotonic() + self._patience) + size / _MIB
        update, judge = self._binding.opening(front)
        content = memoryview(plain_memory(min(size, _FIRST)))
        have = min(size, len(self._rest) - self._at)
        content[:have] = self._rest[self._at : self._at + have]
        self._at += have
        update(content[:have])
        while have < size:
            if have == len(content):
                content, smaller = memoryview(plain_memory(min(size, 4 * have))), content
                content[:have] = smaller
            self._wait(_RECEIVE, deadline, limit)
            with contextlib.suppress(BlockingIOError):
                count = self._socket.recv_into(content[have : have + _FIRST])
                if not count:
                    raise self._gone(_RECEIVE)
                update(content[have : have + count])
                have += count
        while len(self._rest) - self._at < signature_size:
            self._more(deadline, limit)
        self._at += signature_size
        judge(content, self._rest[self._at - signature_size : self._at])
        return content

    def _settle(self, flags: int) -> None:
        """Offer the descriptor of a message, in place of the one before."""
        self._descriptors.withdraw()
        if flags:
            self._descriptors.offer()
        if self._descriptors.waiting and self._at == len(self._rest):
            raise RemoteProtocolError("a descriptor came with a message that has none")

    def _wait(self, direction: str, deadline: float, limit: float) -> None:
        """Wait until the socket can be used; signals do not stretch that.

        Sleeps begin short and double: a signal that comes between two wakes nothing, and its handler runs
        after at most as long as this has waited.
        """
        poll, sleep = self._writable if direction == _SEND else self._readable, _FIRST_SLEEP
        while not self._stopped:
            left = min(deadline, limit) - monotonic()
            if left > 0 and poll(min(left, sleep) * 1000):
                return
            sleep = min(2 * sleep, _SLICE)
            if left <= 0 and deadline <= limit:
                raise CallTimeout(
                    f"{self._peer} did not take the message in time; it did not get it whole"
                    if direction == _SEND
                    else f"no reply from {self._peer} in time; the call may or may not have run"
                )
            if left <= 0:
                break
        raise self._gone(direction)

    def _peek(self) -> bytes | None:
        """Some byte that can be received, none at the end; None when neither is there."""
        try:
            return self._socket.recv(1, sockets.MSG_PEEK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _fail(self, error: BaseException, direction: str) -> None:
        """End the connection, unless it is still in step; raises what an error of the kernel means."""
        if isinstance(error, LocalProtocolError):
            return
        if direction == _RECEIVE and not (self._begun or self._rest):
            return
        self._end()
        if isinstance(error, OSError) and error.errno is not None:  # not ours, nor of a signal's handler
            raise self._gone(direction) from error

    def _gone(self, direction: str) -> AgentClosed | PeerLost:
        """The error of a connection that is over."""
        if forked_since(self._forks):
            return AgentClosed(f"the connection to {self._peer} belongs to the parent of this forked process")
        if self._stopped:
            return AgentClosed(f"the connection to {self._peer} was closed here")
        if direction == _SEND:
            return PeerLost(f"{self._peer} was lost before it got the message whole")
        return PeerLost(f"{self._peer} was lost during the call, which may or may not have run")

    def _end(self) -> None:
        self._ended = True
        if not forked_since(self._forks):  # the parent's goes on when its copy is closed here
            with contextlib.suppress(OSError):  # the other side was faster
                self._socket.shutdown(sockets.SHUT_RDWR)

    def _release(self) -> None:
        if not (self._sending or self._receiving):
            self._socket.close()
            self._descriptors.close()


def _poll(sock: sockets.socket, writing: bool) -> Callable[[float], object]:
    """What waits so many milliseconds until the socket can be written to, or read."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLOUT if writing else select.POLLIN)
        return poll.poll
    readers, writers = ([], [sock]) if writing else ([sock], [])
    return lambda ms: any(select.select(readers, writers, [sock], ms / 1000))


def _flat(content: Content) -> tuple[tuple[Buffer, ...], int]:
    """A content as parts that are counted in bytes, and how many these are."""
    parts = content if isinstance(content, tuple) else (content,)
    try:
        views = tuple(memoryview(part).cast("B") for part in parts)
    except TypeError as exc:
        raise LocalProtocolError(f"the message cannot be sent: {exc}") from None
    return views, sum(map(len, views))


def _sizes(a: int, b: int, c: int, size: int, max_content: int) -> str:
    limits = MAX_HEADER, MAX_SERIALIZER, MAX_MSGID, max_content
    return f"header, serializer, message id and content have {a, b, c, size} bytes, the limits are {limits}"
