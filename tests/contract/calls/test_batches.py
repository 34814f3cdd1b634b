from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pzc import (
    CallTimeout,
    LocalProtocolError,
    MemberRefused,
    Protocol,
    Proxy,
    Refused,
    Server,
    batch,
    lock,
)

from tests.contract.rigs import batching, original
from tests.contract.rigs.batching import Bench
from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, in_thread, proxied, served, until

bench = batching.bench


def test_a_batch_runs_in_order_and_gives_what_each_call_gave(bench: tuple[Server, Proxy]) -> None:
    _, proxy = bench
    with batch(proxy) as b:
        b.x
        b.x = 3
        b.move(2, times=2)
        b.limit
        b.x
    assert b.results == [0, None, 7, 5.0, 7]
    assert proxy.history() == ["get x", "set x 3", "move 2 x 2", "get x"]


def test_nothing_runs_before_the_block_ends_and_everything_gives_none(bench: tuple[Server, Proxy]) -> None:
    _, proxy = bench
    with batch(proxy) as b:
        assert b.x is None
        assert b.move(1) is None
        assert b.results == []
        assert proxy.history() == []
    assert b.results == [0, 1]


def test_a_method_that_is_named_but_not_called_is_not_recorded(bench: tuple[Server, Proxy]) -> None:
    with batch(bench[1]) as b:
        b.move
        b.move(1)
    assert b.results == [1]


def test_a_method_that_is_misspelt_is_told_with_the_nearest(bench: tuple[Server, Proxy]) -> None:
    _, proxy = bench
    told = r"^'mov' .*Bench has no such method; did you mean move\?$"
    with pytest.raises(MemberRefused, match=told), batch(proxy) as b:
        b.mov(1)
    assert proxy.history() == []


def test_a_batch_works_on_mappings_and_signals(bench: tuple[Server, Proxy]) -> None:
    _, proxy = bench
    with batch(proxy) as b:
        b.notes["b"] = 2
        b.notes["b"]
        b.notes.get("c", 3)
        del b.notes["a"]
        b.notes.copy()
        b.changed.emit(1)
    assert b.results == [None, 2, 3, None, {"b": 2}, None]
    with pytest.raises(AttributeError, match=r"cannot record notes\.pop"), batch(proxy) as b:
        b.notes.pop("b")
    with pytest.raises(TypeError, match=r"use notes\.copy"), batch(proxy) as b:
        list(b.notes)


@pytest.mark.parametrize(
    "use", [lambda b: b.move.future(1), lambda b: b.move.oneway(1), lambda b: b.changed.connect(print)]
)
def test_a_batch_records_nothing_that_is_no_call(
    bench: tuple[Server, Proxy], use: Callable[[Any], object]
) -> None:
    with pytest.raises(AttributeError, match="cannot record"), batch(bench[1]) as b:
        use(b)


def test_what_cannot_be_kept_for_a_batch_fails_in_its_place(bench: tuple[Server, Proxy]) -> None:
    with pytest.raises(Refused, match="by itself"), batch(bench[1]) as b:
        b.later()


def test_a_future_that_a_batch_refused_takes_no_room(timings: Callable[..., None]) -> None:
    timings(running_futures=1)
    with served(Bench()) as (_, proxy):
        for _ in range(2):
            with pytest.raises(Refused, match="by itself"), batch(proxy) as b:
                b.later()


def test_a_block_that_raises_sends_nothing(bench: tuple[Server, Proxy]) -> None:
    _, proxy = bench
    b = batch(proxy)
    b.move(1)
    with pytest.raises(KeyError, match="mine"), b:
        raise KeyError("mine")
    assert b.results == []
    assert proxy.history() == []


def test_an_empty_batch_sends_nothing() -> None:
    with served(Bench()) as (server, proxy):
        with batch(proxy) as b:
            server.stop()
        assert b.results == []


def test_a_batch_is_over_after_its_block(bench: tuple[Server, Proxy]) -> None:
    with batch(bench[1]) as b:
        b.x
    with pytest.raises(LocalProtocolError, match="begin another"):
        b.x
    assert b.results == [0]


def test_a_batch_names_the_members_of_its_object(bench: tuple[Server, Proxy]) -> None:
    assert {"x", "move", "results"} <= set(dir(batch(bench[1])))


class Rack:
    """Benches by name, and new ones that nobody but their clients holds."""

    def __init__(self) -> None:
        self.left, self.right = Bench(), Bench()
        self.shelves = [Bench(), Bench()]
        self.x = "of the rack"

    def new(self) -> Bench:
        return Bench()

    def move(self, bench: Bench) -> int:
        return bench.move(1)


@pytest.mark.parametrize(
    "part",
    [lambda rack: rack.left, lambda rack: rack.shelves[1], lambda rack: rack.new()],
    ids=["a member", "an item", "what a method gave"],
)
def test_a_batch_of_a_part_works_on_that_part(part: Callable[[Any], Any]) -> None:
    rack = Rack()
    with served(rack) as (_, proxy):
        with batch(part(proxy)) as b:
            b.move(2)
            b.x = 5
            b.x
            b.notes["a"]
            assert "move" in dir(b)
        assert b.results == [2, None, 5, 1]
        assert (rack.x, rack.right.done) == ("of the rack", [])


def test_a_batch_of_what_cannot_have_members_is_refused() -> None:
    with served(Rack()) as (_, proxy):
        with (
            pytest.raises(MemberRefused, match="'move' is a method, which has no 'x'"),
            batch(proxy.move) as b,
        ):
            b.x


def test_what_is_given_to_a_batch_alone_stays_until_it_has_run() -> None:
    with served(Rack()) as (_, proxy):
        with batch(proxy) as b:
            b.move(proxy.new())
            proxy.right.history.future().result(TIMEOUT)  # behind which every release has come
        assert b.results == [1]


def test_no_other_call_runs_in_between() -> None:
    gate = Gate()
    with served(gate) as (server, proxy), proxied(server.rep_endpoint, timeout=TIMEOUT) as other:

        def together() -> list[Any]:
            with batch(proxy) as b:
                b.wait()
                b.count()
            return b.results

        thread, outcome = in_thread(together)
        assert gate.entered.wait(TIMEOUT)
        counted = other.count.future()
        gate.opened.set()
        thread.join(TIMEOUT)
        assert outcome == [["through", 2]]
        assert counted.result(TIMEOUT) == 3


def test_a_batch_has_one_timeout() -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        with pytest.raises(CallTimeout), batch(proxy, timeout=0.1) as b:
            b.wait()
        gate.opened.set()


def test_a_batch_of_the_holder_of_the_lock_runs(bench: tuple[Server, Proxy]) -> None:
    _, proxy = bench
    with lock(proxy):
        with batch(proxy) as b:
            b.move(1)
        assert b.results == [1]


def test_more_calls_than_a_batch_may_have_are_refused_where_they_are_written(
    bench: tuple[Server, Proxy],
) -> None:
    _, proxy = bench
    recorded = batch(proxy)
    for _ in range(10_000):
        recorded.move(1)
    with pytest.raises(LocalProtocolError, match="at most 10000 calls; nothing was sent"):
        recorded.move(1)
    assert proxy.history() == []


def run(recorded: Any) -> None:
    """Send what was recorded."""
    with recorded:
        pass


def test_a_failing_call_stops_the_batch_and_says_which_it_was(bench: tuple[Server, Proxy]) -> None:
    _, proxy = bench
    b = batch(proxy)
    b.move(1)
    b.fail()
    b.move(1)
    with pytest.raises(ValueError, match="out of range") as caught:
        run(b)
    assert b.results == [1]
    notes = "\n".join(caught.value.__notes__)
    assert "in call 2 of 3 of a batch (exec fail)" in notes
    assert "Remote traceback" in notes
    assert proxy.x == 1


def test_an_unknown_member_fails_in_its_place_and_a_private_one_at_once(bench: tuple[Server, Proxy]) -> None:
    b = batch(bench[1])
    b.move(1)
    b.nope
    for refused in (lambda: getattr(b, "_x"), lambda: setattr(b, "_x", 3)):  # noqa: B009
        with pytest.raises(MemberRefused):
            refused()
    with pytest.raises(AttributeError, match="nope"):
        run(b)
    assert b.results == [1]


def test_a_batch_that_is_sent_one_way_waits_for_nothing_and_runs_in_its_turn() -> None:
    gate = Gate()
    with served(gate, concurrency=1) as (server, proxy):
        waits = proxy.wait.future()
        assert gate.entered.wait(TIMEOUT)
        with batch(proxy, oneway=True) as b:
            b.count()
            b.count()
        assert b.results == []
        until(lambda: server.statistics()["calls"]["waiting"] == 1)
        counted = proxy.count.future()
        gate.opened.set()
        assert waits.result(TIMEOUT)
        assert counted.result(TIMEOUT) == 4


def test_what_raises_in_a_batch_that_was_sent_one_way_ends_it_and_nothing_else(
    bench: tuple[Server, Proxy],
) -> None:
    _, proxy = bench
    with batch(proxy, oneway=True) as b:
        b.move(1)
        b.unknown
        b.move(2)
    until(lambda: proxy.history() == ["move 1 x 1"])
    assert proxy.history() == ["move 1 x 1"]


@pytest.mark.usefixtures("beside_originals")
def test_an_original_pizco_refuses_a_batch() -> None:
    key = KEY.encode()
    with (
        original.Server(key, original.invented(key)) as server,
        proxied(server.endpoint, timeout=TIMEOUT, protocol=Protocol(KEY, "pickle2")) as psu,
    ):
        with pytest.raises(Refused, match="an original Pizco cannot run a batch"):
            batch(psu)
