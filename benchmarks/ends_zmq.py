"""Raw pyzmq, PUB and SUB: nothing encoded, signed or numbered, unless it is said of a kind.

With ``lossless`` a publisher that is at its high-water mark waits; else it drops, and nobody is told.
"""

from __future__ import annotations

import hashlib
import hmac
import pickle
import time
from collections.abc import Callable
from typing import Any

import zmq

from benchmarks.ends import ROUND_LIMIT, SMALL, Reader, Setting, Take, Writer, late
from benchmarks.jobs import WrongResult

MARKS = {True: 1000, False: 64}
"""High-water mark of both ends, for small payloads and for arrays."""

KEY = b"of this benchmark"


def _socket(kind: int, setting: Setting) -> zmq.Socket[bytes]:
    socket = zmq.Context.instance().socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.set_hwm(MARKS[setting.size <= SMALL])
    return socket


class ZmqWriter(Writer):
    """A PUB socket.

    With ``copy`` false the array itself is sent, and no part of it may be changed until it is gone: such
    a publisher needs several arrays.
    """

    def __init__(self, setting: Setting) -> None:
        own = setting.own
        self._socket = _socket(zmq.PUB, setting)
        self._socket.setsockopt(zmq.XPUB_NODROP, int(own.get("lossless", True)))
        if own.get("transport") == "ipc":
            self.address = f"ipc://{setting.folder}/pub"
            self._socket.bind(self.address)
        else:
            self.address = f"tcp://127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self._copy = own.get("copy", True)
        self._trackers: dict[int, Any] = {}
        self.sources = 1 if self._copy else 4

    def send(self, payload: Any) -> None:
        """Publish it; waits at most as long as a round."""
        if self._copy:
            self._socket.send(payload)
        else:
            self._trackers[id(payload)] = self._socket.send(payload, copy=False, track=True)

    def settle(self, payload: Any) -> None:
        """See `Writer.settle`."""
        tracker = self._trackers.pop(id(payload), None)
        if tracker is not None:
            tracker.wait(ROUND_LIMIT)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class ZmqReader(Reader):
    """A SUB socket."""

    def __init__(self, setting: Setting, address: str) -> None:
        self._socket = _socket(zmq.SUB, setting)
        self._socket.setsockopt(zmq.RCVTIMEO, 1000)
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._socket.connect(address)
        self._copy = setting.own.get("copy", True)

    def read(self, take: Take, ready: Callable[[], object]) -> None:
        """See `Reader.read`."""
        deadline = time.monotonic() + ROUND_LIMIT
        ready()
        while True:
            try:
                if take(self._receive()):
                    return
            except zmq.Again:
                if time.monotonic() > deadline:
                    raise late() from None

    def _receive(self) -> Any:
        return self._socket.recv() if self._copy else self._socket.recv(copy=False).buffer

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class SignedZmqWriter(ZmqWriter):
    """As a careful user would do it by hand: pickle, and HMAC-SHA256 over it."""

    def send(self, payload: Any) -> None:
        """Publish it, signed."""
        content = pickle.dumps(payload)
        self._socket.send_multipart([content, hmac.digest(KEY, content, hashlib.sha256)])


class SignedZmqReader(ZmqReader):
    """The other end of it."""

    def _receive(self) -> Any:
        content, tag = self._socket.recv_multipart()
        if not hmac.compare_digest(tag, hmac.digest(KEY, content, hashlib.sha256)):
            raise WrongResult("a signature is wrong")
        return pickle.loads(content)
