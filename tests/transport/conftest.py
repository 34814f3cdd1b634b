"""What several of these tests ask for: a stream whose peer is a bare
socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pzc.transport.link_stream import LinkStream


@pytest.fixture
def raw() -> Iterator[tuple[LinkStream, socket.socket]]:
    """A stream, and the bare socket of its peer."""
    one, two = socket.socketpair()
    stream = LinkStream(one)
    with two:
        yield stream, two
    stream.close()
