from __future__ import annotations

from collections.abc import Iterator

import pytest

from pzc import Protocol, Refused, Server

from tests.contract.calls.test_generators import Reader, Source, error_of, reader_of
from tests.contract.rigs.calling import KEY


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def server(source: Source) -> Iterator[Server]:
    with Server(source, protocol=Protocol(KEY)) as made:
        yield made
        source.opened.set()


@pytest.fixture
def reader(server: Server) -> Iterator[Reader]:
    with reader_of(server) as made:
        yield made


def test_a_stream_that_may_not_be_held_is_not_kept(
    reader: Reader, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise Refused("it holds too much")

    monkeypatch.setattr(server._answering.holding, "hold", full)
    answer = reader.ask("exec", name="count", method="__call__", args=())
    assert error_of(answer) == "Refused"
    assert server.statistics()["streams"] == 0
