"""Transports of a pipeline: how requests that nobody waits for go out, and how their replies come back.

=========  ==========================  ===============================  ==================================
transport  a request is made           it is written by                 its reply is received by
=========  ==========================  ===============================  ==================================
ZeroMQ     sealed when submitted       the I/O thread, one by one       the I/O thread
Unix       packed when submitted,      any thread, many in one write    a thread of its own, many in one read
           sealed when written
=========  ==========================  ===============================  ==================================
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

import zmq

from ...protocol.errors import PeerLost, PzcError
from ...protocol.message import Message
from ...transport.endpoints import connect, new_monitor, new_socket, receive_event
from ...transport.exchange import UnixExchange
from ...transport.loop import Loop
from ...transport.parts import is_readable, receive_parts, send_parts
from .abort import AbortSignal
from .connection import Sealed, serializer_of
from .pending import Pending

logger = logging.getLogger("pzc.requests")

WORTH_IT = 8
"""Requests in flight to one peer from which on they get a Unix connection of their own."""

_TAKES = 0.5
"""Seconds in which a server that lives takes requests; one that does not is asked over ZeroMQ."""

_BATCH = 64
"""Replies that are read before other sockets have their turn, whoever sends them."""

FRONT = 1024
"""Bytes of a request besides its content, at most."""

_receivers: set[int] = set()


def in_receiver() -> bool:
    """True in a thread that receives, and must not wait for anything else."""
    return threading.get_ident() in _receivers


Deliver = Callable[[Sequence[Message]], object]
"""Gets verified messages that came, in the thread that receives."""


class ZmqTransport:
    """The DEALER socket of one pipeline, which the I/O thread owns.

    Args:
        loop: of the I/O thread.
        sealed: makes and reads the messages.
        deliver: gets what comes.
        refuse: called, in the thread that receives, when what came cannot be a reply.
        lose: told of this transport, and why, when the connection is over; libzmq makes the next one.
    """

    most = 1
    """Requests in one write."""

    def __init__(
        self,
        loop: Loop,
        sealed: Sealed,
        deliver: Deliver,
        refuse: Callable[[], object],
        lose: Callable[[ZmqTransport, PzcError], object],
    ) -> None:
        self._loop = loop
        self._sealed = sealed
        self._deliver = deliver
        self._refuse = refuse
        self._lose = lose
        self._endpoint = sealed.peer.endpoint
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None

    def make(self, entry: Pending) -> None:
        """Seal a request, which has its id then; any thread.

        Raises:
            SerializeError, LocalProtocolError: when it cannot be sent.
        """
        frames = self._sealed.seal(entry.content)
        entry.made, entry.msgid, entry.size = frames, str(frames[3], "ascii"), len(frames[2])

    def free(self) -> bool:
        """Whether the calling thread may write."""
        return self._loop.in_thread()

    def write(self, entries: Sequence[Pending]) -> None:
        """Send requests that `make` has made.

        Raises:
            zmq.Again: when there is no room now.
            zmq.ZMQError: when it cannot be.
        """
        try:
            for entry in entries:
                send_parts(self._socket or self._open(), (b"",), entry.made)
        except zmq.Again:
            if self._endpoint.startswith("inproc://"):  # libzmq does not connect these again by itself
                self.close()
            raise

    def _open(self) -> zmq.Socket[bytes]:
        socket = new_socket(self._loop.context, zmq.DEALER)
        monitor = new_monitor(socket, zmq.EVENT_DISCONNECTED)
        self._socket, self._monitor = socket, monitor
        if not self._sealed.peer.native:
            # Else a request to a peer that is gone would run whenever one comes back there. Elsewhere
            # its address under the signature prevents that, and IMMEDIATE can cost a reply.
            socket.setsockopt(zmq.IMMEDIATE, 1)
        connect(socket, self._endpoint)
        self._loop.register(socket, self._on_readable)
        self._loop.register(monitor, self._on_disconnected)
        return socket

    def _on_disconnected(self) -> None:
        while (socket := self._socket) is not None and not socket.closed and is_readable(socket):
            self._on_readable()  # what came before
        if self._monitor is not None and receive_event(self._monitor).event == zmq.EVENT_DISCONNECTED:
            text = f"{self._endpoint} was lost during the call, which may or may not have run"
            self._lose(self, PeerLost(text))

    def _on_readable(self) -> None:
        for _ in range(_BATCH):
            socket = self._socket
            if socket is None or socket.closed or not is_readable(socket):
                return
            frames = receive_parts(socket)
            try:
                message = self._sealed.open(frames[1:] if frames and not frames[0] else frames)
            except PzcError:
                self._refuse()
            else:
                self._deliver((message,))

    def close(self, linger: int = 0) -> None:
        """Close the socket, which the next request opens again; I/O thread.

        Args:
            linger: milliseconds for which libzmq goes on sending.
        """
        socket, self._socket = self._socket, None
        monitor, self._monitor = self._monitor, None
        if socket is not None and monitor is not None:
            self._loop.unregister(monitor)
            self._loop.unregister(socket)
            socket.disable_monitor()
            monitor.close(0)
            socket.close(linger)


class UnixTransport:
    """The Unix connection of one pipeline, whose server reads on while calls run.

    Args:
        exchange: with the peer, taken over.
        deliver: gets what comes.
        lose: told of this transport, and why, when the connection is over.
        closed: ends the wait.
    """

    most = 64
    """Requests in one write."""

    def __init__(
        self,
        exchange: UnixExchange,
        deliver: Deliver,
        lose: Callable[[UnixTransport, PzcError], object],
        closed: AbortSignal,
    ) -> None:
        self._exchange = exchange
        self._deliver = deliver
        self._lose = lose
        self._closed = closed

    def start(self) -> None:
        """Receive from now on."""
        threading.Thread(target=self._run, name="pzc-replies", daemon=True).start()

    def make(self, entry: Pending) -> None:
        """Express a request, which gets its id when it is written; as `ZmqTransport.make`."""
        word = None if entry.content.__class__ is tuple else serializer_of(entry.content)
        entry.made = packed = self._exchange.session.pack(entry.content, word)
        entry.size = FRONT + len(packed[1])

    def free(self) -> bool:
        """Whether the calling thread may write: who receives must not wait for who does not read."""
        return not in_receiver()

    def write(self, entries: Sequence[Pending]) -> None:
        """Send requests that `make` has made, and set their ids.

        Raises:
            PzcError: when the connection is over, or the server takes nothing; then none of them went.
        """
        made = [(entry.made, None) for entry in entries]
        ids = self._exchange.send_many(made, time.monotonic() + _TAKES, packed=True)
        for entry, msgid in zip(entries, ids, strict=True):
            entry.msgid = msgid

    def _run(self) -> None:
        _receivers.add(threading.get_ident())
        try:
            while True:
                messages = self._exchange.receive_many(math.inf, self._closed)
                try:
                    self._deliver(messages)
                except Exception:
                    logger.exception("a reply of %s could not be handed out", self._exchange.stream.peer)
        except PzcError as exc:
            self._exchange.close()
            self._lose(self, exc)
        finally:
            _receivers.discard(threading.get_ident())

    def close(self) -> None:
        """End it; any thread."""
        self._exchange.close()


Transport = ZmqTransport | UnixTransport
