"""What several of these tests ask for: both ends of a connection in every lane, streams of either kind over either
carrier, or a stream whose peer is a bare socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pzc.transport.link_stream import LinkStream

from tests.transport.exchanging import LANES, PAIRS, Make
from tests.transport.stream_ends import CLASSES, Ends, Raw, opened, pair, stream_class


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


@pytest.fixture(params=CLASSES)
def kind(request: pytest.FixtureRequest) -> Any:
    """A class of streams."""
    return stream_class(request.param)


@pytest.fixture(params=["unix", "tcp"])
def carrier(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def wired(kind: Any, carrier: str) -> Iterator[Raw]:
    """A stream over either carrier, and the bare socket of its peer."""
    with opened(kind, carrier) as made:
        yield made


@pytest.fixture
def local(kind: Any) -> Iterator[Raw]:
    """A stream over a Unix socket, and the bare socket of its peer."""
    with opened(kind) as made:
        yield made


@pytest.fixture(params=[f"{one}-{other}" for one in CLASSES for other in CLASSES])
def ends(request: pytest.FixtureRequest, carrier: str) -> Iterator[Ends]:
    """Two connected streams."""
    kinds = map(stream_class, request.param.split("-"))
    one, other = (make(sock) for make, sock in zip(kinds, pair(carrier), strict=True))
    yield one, other
    one.close()
    other.close()
