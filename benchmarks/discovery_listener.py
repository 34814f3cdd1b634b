"""A socket that hears what is said on loopback, with nothing of the package behind it."""

from __future__ import annotations

import socket
import time

GROUP = "239.255.80.90"
HEADERS = 28
"""Bytes of the headers of UDP and IP."""


class Listener:
    """Hears the group of discovery on the loopback interface.

    Args:
        port: of the group.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((GROUP, port))
            membership = socket.inet_aton(GROUP) + socket.inet_aton("127.0.0.1")
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        except OSError:
            self._socket.close()
            raise

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def listen(self, seconds: float) -> int:
        """Bytes, with headers, of the datagrams that come within that time."""
        heard, deadline = 0, time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                heard += len(self._socket.recv(1 << 16)) + HEADERS
            except TimeoutError:
                break
        return heard
