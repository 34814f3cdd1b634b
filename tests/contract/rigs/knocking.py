"""Strangers at the sockets of a listener: they connect and say nothing, or a byte now and then."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.contract.rigs.calling import TIMEOUT


def place_of(stream_endpoint: str) -> tuple[str, int]:
    """Host and port."""
    host, _, port = stream_endpoint.removeprefix("tcp://").rpartition(":")
    return host.strip("[]"), int(port)


def tcp(info: dict[str, Any]) -> socket.socket:
    """A connection to the TCP socket that a server tells in its info."""
    return socket.create_connection(place_of(info["stream_endpoint"]), TIMEOUT)


def unix(info: dict[str, Any]) -> socket.socket:
    """As `tcp`, to its Unix socket."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(TIMEOUT)
    made.connect(f"\0{info['stream_name']}")
    return made


@contextmanager
def crowd(info: dict[str, Any], count: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many strangers at both sockets, each of whom says something once."""
    with ExitStack() as stack:
        made = [stack.enter_context((tcp, unix)[number % 2](info)) for number in range(count)]
        for each in made:
            with contextlib.suppress(OSError):  # it was hung up by now
                each.sendall(said)
        yield made


@contextmanager
def dripping(strangers: list[socket.socket]) -> Iterator[None]:
    """They say one more byte every tenth of a second, each anew as a message of endless content."""
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.1):
            for each in strangers:
                with contextlib.suppress(OSError):
                    each.send(b"\2")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(TIMEOUT)
