"""What several of these tests ask for: both ends of a connection in every lane, or a stream whose peer is a bare
socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pzc.transport.stream import Stream

from tests.transport.exchanging import LANES, PAIRS, Make
from tests.transport.piping import Link


@pytest.fixture(params=PAIRS, ids=[" asks ".join(each) for each in PAIRS])
def makes(request: pytest.FixtureRequest) -> tuple[Make, Make]:
    return LANES[request.param[0]], LANES[request.param[1]]


@pytest.fixture
def link(makes: tuple[Make, Make]) -> Iterator[Link]:
    made = Link(makes)
    yield made
    made.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    """Descriptors of three files."""
    fds = [os.open(tmp_path / name, os.O_CREAT | os.O_RDWR) for name in "abc"]
    yield fds
    for fd in fds:
        os.close(fd)


@pytest.fixture
def raw() -> Iterator[tuple[Stream, socket.socket]]:
    """A stream, and the bare socket of its peer."""
    one, two = socket.socketpair()
    stream = Stream(one)
    with two:
        yield stream, two
    stream.close()
