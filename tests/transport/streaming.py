"""Messages of a stream, whole and as the bytes that another program would send."""

from __future__ import annotations

import array
import socket
import struct
import threading
import time

from pzc.protocol.frames import Buffer

from tests.contract.rigs.calling import TIMEOUT

NEVER = threading.Event()
LARGE = 100_000
HEAD = struct.Struct("<BBHBBHIQ")


def soon(seconds: float = TIMEOUT) -> float:
    return time.monotonic() + seconds


def message(content: Buffer = b"content") -> list[Buffer]:
    return [b"header", b"json", content, b"urn", b"tag"]


def packed(content: bytes = b"content", flags: int = 0) -> bytes:
    """A message as bytes."""
    return HEAD.pack(1, flags, 6, 4, 3, 3, len(content), 0) + b"headerjsonurntag" + content


def attached(*fds: int) -> list[tuple[int, int, array.array[int]]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
