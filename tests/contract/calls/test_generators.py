from __future__ import annotations

from collections.abc import Callable

import pytest

from pzc import Protocol, Server

from tests.contract.rigs import generating
from tests.contract.rigs.calling import KEY, TIMEOUT, until
from tests.contract.rigs.generating import Reader, Source, error_of, reader_of

source, server, reader = generating.source, generating.server, generating.reader


def test_a_generator_does_not_run_before_it_is_asked(reader: Reader, source: Source) -> None:
    reader.open("count")
    assert source.made == []


def test_a_generator_never_runs_further_than_it_is_read(reader: Reader, source: Source) -> None:
    stream = reader.open("count")
    for number in range(4):
        assert reader.next(stream) == ("items", {"items": [number], "done": False, "raised": None})
        assert source.made == list(range(number + 1))


def test_the_end_of_a_generator_comes_after_its_last_item_and_closes_the_stream(
    reader: Reader, server: Server
) -> None:
    stream = reader.open("count", 3)
    for number in range(3):
        assert reader.next(stream)[1]["items"] == [number]
    assert reader.next(stream)[1] == {"items": [], "done": True, "raised": None}
    assert error_of(reader.next(stream)) == "Refused"
    assert server.statistics()["streams"] == 0


def test_what_a_generator_raises_comes_behind_its_last_items(reader: Reader, server: Server) -> None:
    stream = reader.open("fail")
    assert reader.next(stream)[1]["items"] == [1]
    _, options = reader.next(stream)
    assert (options["items"], options["done"]) == ([], True)
    assert options["raised"][0]["text"] == "out of paper"
    assert server.statistics()["streams"] == 0


def test_a_dropped_stream_closes_its_generator_in_its_turn(
    reader: Reader, server: Server, source: Source
) -> None:
    stream = reader.open("count")
    reader.next(stream)
    assert reader.drop(stream) == {"pzc": "drop"}
    assert source.closed.wait(TIMEOUT)
    assert all(name.startswith("pzc-lane") for name in source.threads)
    assert error_of(reader.next(stream)) == "Refused"


@pytest.mark.parametrize("stream_id", ["unknown", None, 7, ["x"], ""])
def test_an_unknown_stream_is_refused_and_dropping_it_is_harmless(reader: Reader, stream_id: object) -> None:
    assert error_of(reader.next(stream_id)) == "Refused"
    assert reader.drop(stream_id) == {"pzc": "drop"}


def test_the_stream_of_another_agent_is_refused_and_cannot_be_dropped(
    reader: Reader, server: Server, source: Source
) -> None:
    stream = reader.open("count")
    with reader_of(server) as stranger:
        assert error_of(stranger.next(stream)) == "Refused"
        stranger.drop(stream)
    assert reader.next(stream)[1]["items"] == [0]
    assert not source.closed.is_set()


def test_a_stream_that_is_dropped_while_it_runs_is_closed_afterwards(
    reader: Reader, server: Server, source: Source
) -> None:
    stream = reader.open("block")
    reader.next(stream)
    peer = reader.agent.peer(server.rep_endpoint)
    running = reader.agent.exchange_later(
        peer, ("PSMessage", "next", {"id": stream}), TIMEOUT
    )  # fmt: skip
    assert source.entered.wait(TIMEOUT)
    reader.drop(stream)
    source.opened.set()
    assert source.closed.wait(TIMEOUT)
    assert running.result(TIMEOUT).content[2]["done"]


def test_a_stream_is_dropped_while_another_call_runs_and_closed_behind_it(
    reader: Reader, server: Server, source: Source
) -> None:
    stream = reader.open("count")
    reader.next(stream)
    peer = reader.agent.peer(server.rep_endpoint)
    call = ("PSMessage", "exec", {"name": "wait", "method": "__call__"})
    running = reader.agent.exchange_later(peer, call, TIMEOUT)
    assert source.entered.wait(TIMEOUT)
    assert reader.drop(stream) == {"pzc": "drop"}
    assert not source.closed.is_set()
    source.opened.set()
    running.result(TIMEOUT)
    assert source.closed.wait(TIMEOUT)


def test_an_asynchronous_generator_is_a_stream_too(reader: Reader, source: Source) -> None:
    stream = reader.open("tick", 2)
    assert [reader.next(stream)[1]["items"] for _ in range(2)] == [[0], [1]]
    assert reader.next(stream)[1] == {"items": [], "done": True, "raised": None}
    assert source.closed.is_set()


def test_a_dropped_asynchronous_generator_is_closed(reader: Reader, source: Source) -> None:
    stream = reader.open("tick", 5)
    reader.next(stream)
    reader.drop(stream)
    assert source.closed.wait(TIMEOUT)


@pytest.mark.parametrize("name", ["count", "tick"])
def test_stopping_the_server_closes_its_streams(
    reader: Reader, server: Server, source: Source, name: str
) -> None:
    reader.next(reader.open(name, 100))
    server.stop()
    assert source.closed.is_set()


def test_one_stream_too_many_is_refused(reader: Reader, server: Server, timings: Callable[..., None]) -> None:
    timings(streams=2)
    kept = [reader.open("count"), reader.open("count")]
    call = {"name": "count", "method": "__call__", "args": ()}
    assert error_of(reader.ask("exec", **call)) == "Refused"
    reader.drop(kept[0])
    assert reader.ask("exec", **call)[0] == "stream"


def test_the_stream_of_a_reader_that_gives_no_sign_of_life_is_closed(
    source: Source, timings: Callable[..., None]
) -> None:
    timings(silence=0.2)
    with Server(source, protocol=Protocol(KEY)) as server, reader_of(server) as reader:
        reader.next(reader.open("count"))
        assert source.closed.wait(TIMEOUT)
        until(lambda: server.statistics()["calls"]["held"] == 0)
        assert server.statistics()["streams"] == 0
