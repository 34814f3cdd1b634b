"""What several of these tests ask for: streams of either kind over either carrier, whose peer may be a bare socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pzc.transport.link_stream import LinkStream

from tests.transport.stream_ends import CLASSES, Ends, Raw, opened, pair, stream_class


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
