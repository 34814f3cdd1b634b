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
HEAD = struct.Struct("<BBHBBHIII")
IN_BLOCK, WITH_FD = 1, 2


def soon(seconds: float = TIMEOUT) -> float:
    return time.monotonic() + seconds


def message(content: Buffer = b"content") -> list[Buffer]:
    return [b"header", b"json", content, b"urn", b"tag"]


def packed(content: bytes = b"content", notes: tuple[int, ...] = ()) -> bytes:
    """A message without block, as bytes."""
    head = HEAD.pack(1, 0, 6, 4, 3, 3, len(content), 0, len(notes))
    return head + b"headerjsonurntag" + content + struct.pack(f"<{len(notes)}i", *notes)


def in_block(size: int, block_id: int, flags: int = IN_BLOCK | WITH_FD) -> bytes:
    """A message whose content lies in a block, as bytes."""
    return HEAD.pack(1, flags, 6, 4, 3, 3, size, block_id, 0) + b"headerjsonurntag"


def attached(*fds: int) -> list[tuple[int, int, array.array[int]]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
