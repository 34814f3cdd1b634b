"""Streams of either kind over either carrier, and the bytes of a message as another program would make them."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import importlib.machinery
import importlib.util
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pzc.protocol.errors import PzcError
from pzc.transport.plain_stream import PlainStream

from tests.contract.rigs.calling import TIMEOUT

HEAD = struct.Struct("<BBHHHHHQ")
NONE, HMAC, GCM = 0, 1, 3
SUITES = {"none": NONE, "hmac": HMAC, "gcm": GCM}
KEYS = b"k" * 32, b"l" * 32
LARGE = 300_000
FRONT = b"header", b"json", b"urn"

Raw = tuple[Any, socket.socket]
Ends = tuple[Any, Any]


def _compiled() -> Any:
    path = os.environ.get("STREAM_UNDER_TEST")  # one that was built for this run, with sanitizers
    if not path:
        spec = importlib.util.find_spec("pzc.transport._stream")
        return importlib.import_module("pzc.transport._stream").Stream if spec else None
    loader = importlib.machinery.ExtensionFileLoader("pzc.transport._stream", path)
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(loader.name, loader, origin=path))
    loader.exec_module(module)
    return module.Stream


CLASSES: dict[str, Any] = {"plain": PlainStream, "compiled": _compiled()}


def stream_class(name: str) -> Any:
    """A class of streams; the test is skipped where it was not built."""
    if CLASSES[name] is None:
        pytest.skip("the compiled stream was not built")
    return CLASSES[name]


def pair(carrier: str = "unix") -> tuple[socket.socket, socket.socket]:
    """Two connected sockets."""
    if carrier == "unix":
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


@contextlib.contextmanager
def opened(kind: Any, carrier: str = "unix", **options: Any) -> Iterator[Raw]:
    """A stream, and the bare socket of its peer."""
    one, other = pair(carrier)
    stream = kind(one, **options)
    with other:
        yield stream, other
    stream.close()


def protect(one: Any, other: Any, suite: int) -> None:
    """Have both ends of a connection seal and verify."""
    one.protect(suite, *KEYS)
    other.protect(suite, *KEYS[::-1])


def soon(seconds: float = TIMEOUT) -> float:
    """A deadline."""
    return time.monotonic() + seconds


def packed(
    content: bytes = b"content", suite: int = NONE, number: int = 0, flags: int = 0, key: bytes = KEYS[0]
) -> bytes:
    """A message as bytes, sealed without the help of the package."""
    size = 1 + {NONE: 0, HMAC: 32, GCM: 16}[suite]
    front = HEAD.pack(2, flags, *map(len, FRONT), size, 0, len(content)) + b"".join(FRONT)
    counter, tag = struct.pack(">Q", number), b""
    if suite == HMAC:
        tag = hmac.digest(key, counter + front + content, hashlib.sha256)
    elif suite == GCM:
        sealed = AESGCM(key).encrypt(bytes(4) + counter, content, front)
        content, tag = sealed[:-16], sealed[-16:]
    return front + content + bytes((suite,)) + tag


def send(stream: Any, content: Any = b"content", deadline: float | None = None, descriptor: int = -1) -> None:
    """Send a message with the usual front."""
    stream.send(*FRONT, content, soon() if deadline is None else deadline, descriptor)


def flood(stream: Any, size: int, seconds: float = TIMEOUT) -> None:
    """Send more than any kernel keeps for a peer that takes nothing."""
    for _ in range(1_000_000):
        send(stream, bytes(size), soon(seconds))


def receive(stream: Any, seconds: float = TIMEOUT) -> bytes:
    """Content of the next message, which has the usual front."""
    *front, content = stream.receive(soon(seconds))
    assert tuple(front) == FRONT
    return bytes(content)


@contextlib.contextmanager
def beside(work: Callable[[], object]) -> Iterator[list[Any]]:
    """Run something in another thread; what it returned or raised is in the list at the end."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except PzcError as exc:
            found.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield found
    finally:
        thread.join(TIMEOUT)
        assert not thread.is_alive()
