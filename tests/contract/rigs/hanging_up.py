"""The sockets that are open in this process, and the end of those that lead to an agent."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator


def sockets() -> Iterator[socket.socket]:
    """Those that are open in this process, each for a moment."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            found = socket.socket(fileno=int(name))
            try:
                yield found
            finally:
                found.detach()


def hang_up() -> int:
    """Cut every connection of this process with a Unix socket, as if the kernel had failed it; how many."""
    cut = 0
    for found in sockets():
        with contextlib.suppress(OSError):
            if found.family == socket.AF_UNIX and bytes(found.getpeername() or b"").startswith(b"\0pzc/"):
                found.shutdown(socket.SHUT_RDWR)
                cut += 1
    return cut


def cut(endpoint: str) -> int:
    """Cut every connection of this process with a tcp endpoint, as if the network had failed it; how many."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    found = 0
    for each in sockets():
        with contextlib.suppress(OSError):
            if each.family == socket.AF_INET and each.getpeername() == (host, int(port)):
                each.shutdown(socket.SHUT_RDWR)
                found += 1
    return found
