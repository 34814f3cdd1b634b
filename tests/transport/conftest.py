"""What several of these tests ask for: both ends of a connection in every lane, or a stream whose peer is a bare
socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pzc.transport.link_stream import LinkStream

from tests.transport.exchanging import LANES, PAIRS, Make


@pytest.fixture(params=PAIRS, ids=[" asks ".join(each) for each in PAIRS])
def makes(request: pytest.FixtureRequest) -> tuple[Make, Make]:
    return LANES[request.param[0]], LANES[request.param[1]]


@pytest.fixture
def raw() -> Iterator[tuple[LinkStream, socket.socket]]:
    """A stream, and the bare socket of its peer."""
    one, two = socket.socketpair()
    stream = LinkStream(one)
    with two:
        yield stream, two
    stream.close()
