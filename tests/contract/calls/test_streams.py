from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pzc import (
    AgentClosed,
    CallTimeout,
    LockedBy,
    PeerLost,
    Protocol,
    Proxy,
    Refused,
    RemoteStream,
    Server,
    close,
    lock,
)

from tests.contract.rigs import scanners
from tests.contract.rigs.calling import KEY, TIMEOUT, in_thread, proxied, served, until
from tests.contract.rigs.scanners import Scanner

scanning = scanners.scanning

"""Items that a reader takes ahead at most."""


def test_a_generator_is_iterated_in_order_to_its_end(scanning: tuple[Scanner, Proxy]) -> None:
    scanner, proxy = scanning
    assert list(proxy.scan(1000)) == list(range(1000))
    assert scanner.closed.is_set()


def test_an_empty_generator_ends_at_once(scanning: tuple[Scanner, Proxy]) -> None:
    assert list(scanning[1].scan(0)) == []


def test_a_reader_that_stops_reading_stops_the_generator(scanning: tuple[Scanner, Proxy]) -> None:
    scanner, proxy = scanning
    with proxy.endless() as stream:
        for item, _ in zip(stream, range(1000), strict=False):
            assert scanner.made <= item + 1
        ahead = scanner.made
        assert proxy.plain() == 7
        assert scanner.made == ahead


def test_the_exception_of_a_generator_comes_behind_its_items(scanning: tuple[Scanner, Proxy]) -> None:
    _, proxy = scanning
    stream = proxy.break_at(10)
    assert [next(stream) for _ in range(10)] == list(range(10))
    with pytest.raises(ValueError, match="out of range"):
        next(stream)
    assert list(stream) == []


def test_the_exception_of_a_generator_tells_of_nothing_but_itself(scanning: tuple[Scanner, Proxy]) -> None:
    with pytest.raises(ValueError, match="out of range") as raised:
        list(scanning[1].break_at(10))
    assert raised.value.__context__ is None


def test_a_closed_stream_closes_its_generator_and_ends(scanning: tuple[Scanner, Proxy]) -> None:
    scanner, proxy = scanning
    stream = proxy.endless()
    assert next(stream) == 0
    stream.close()
    stream.close()
    assert list(stream) == []
    assert scanner.closed.wait(TIMEOUT)


class Output:
    """Notes its end."""

    def __init__(self, note: Callable[[], object]) -> None:
        self._note = note

    def __del__(self) -> None:
        self._note()


def begun(stream: Any) -> Any:
    """A generator that has begun."""
    assert next(stream) == 0
    return stream


class Waiting:
    """Has something that does not come."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    async def never(self) -> AsyncIterator[int]:
        """Nothing."""
        self.asked.set()
        await asyncio.Event().wait()
        yield 1

    def plain(self) -> int:
        """At once."""
        return 7


def test_closing_a_stream_whose_item_is_awaited_lets_the_next_call_run() -> None:
    waiting = Waiting()
    with served(waiting, timeout=3.0) as (_, proxy):
        stream = proxy.never()
        reading, items = in_thread(lambda: list(stream))
        assert waiting.asked.wait(TIMEOUT)
        stream.close()
        assert proxy.plain() == 7
        reading.join(TIMEOUT)
        assert items == [[]]


class Giving:
    """Gives what stays with it."""

    def __init__(self) -> None:
        self.calls = 0

    def numbers(self) -> Iterator[int]:
        """Some."""
        self.calls += 1
        return iter_of(3)

    def part(self) -> object:
        """Another one."""
        self.calls += 1
        return Giving()


def iter_of(count: int) -> Iterator[int]:
    yield from range(count)


@pytest.mark.parametrize("method", ["numbers", "part"])
def test_nothing_is_kept_for_whoever_wants_no_answer(method: str) -> None:
    giving = Giving()
    with served(giving) as (server, proxy):
        for _ in range(3):
            getattr(proxy, method).oneway()
        until(lambda: giving.calls == 3)
        assert proxy.calls == 3
        told = server.statistics()
        assert (told["streams"], told["handles"]) == (0, 0)


def test_leaving_a_with_block_closes_the_generator(scanning: tuple[Scanner, Proxy]) -> None:
    scanner, proxy = scanning
    with proxy.endless() as stream:
        assert next(stream) == 0
    assert scanner.closed.wait(TIMEOUT)


def test_a_dropped_stream_closes_its_generator(scanning: tuple[Scanner, Proxy]) -> None:
    scanner, proxy = scanning
    for _ in proxy.endless():
        break
    gc.collect()
    assert scanner.closed.wait(TIMEOUT)


def test_a_proxy_that_is_closed_closes_its_streams() -> None:
    scanner = Scanner()
    with served(scanner) as (server, _):
        proxy = Proxy(server.rep_endpoint, timeout=TIMEOUT)
        stream = proxy.endless()
        assert next(stream) == 0
        close(proxy)
        with pytest.raises(AgentClosed):
            list(stream)
        assert scanner.closed.wait(TIMEOUT)
        with pytest.raises(AgentClosed):
            proxy.endless()


def test_a_proxy_lives_as_long_as_its_stream() -> None:
    with served(Scanner()) as (server, _):
        stream = Proxy(server.rep_endpoint, timeout=TIMEOUT).scan(1000)
        gc.collect()
        assert list(stream) == list(range(1000))
        stream.close()
        del stream
        gc.collect()


def test_other_calls_run_between_the_items(scanning: tuple[Scanner, Proxy]) -> None:
    _, proxy = scanning
    with proxy.endless() as one, proxy.endless() as two:
        for number in range(10):
            assert (next(one), proxy.plain(), next(two)) == (number, 7, number)


def test_an_item_that_does_not_come_is_a_timeout_and_ends_the_stream(
    scanning: tuple[Scanner, Proxy],
) -> None:
    scanner, proxy = scanning
    stream = proxy.stall.options(timeout=0.2)()
    assert next(stream) == 1
    with pytest.raises(CallTimeout):
        next(stream)
    assert list(stream) == []
    scanner.opened.set()
    assert proxy.plain() == 7


def test_a_stream_of_a_server_that_was_restarted_is_an_error() -> None:
    protocol = Protocol(KEY)
    server = Server(Scanner(), protocol=protocol)
    endpoint = server.rep_endpoint
    with proxied(endpoint, protocol=protocol, timeout=2.0) as proxy:
        stream = proxy.endless()
        assert next(stream) == 0
        server.stop()
        with Server(Scanner(), endpoint, protocol=protocol):
            with pytest.raises((PeerLost, Refused, CallTimeout)):
                list(stream)
            assert proxy.plain() == 7


def test_a_stream_whose_server_is_gone_is_an_error_in_time() -> None:
    with Server(Scanner()) as server, proxied(server.rep_endpoint, timeout=0.5) as proxy:
        stream = proxy.endless()
        assert next(stream) == 0
        server.stop()
        with pytest.raises((PeerLost, CallTimeout)):
            list(stream)


def test_threads_that_share_a_stream_share_its_items(scanning: tuple[Scanner, Proxy]) -> None:
    _, proxy = scanning
    stream = proxy.scan(2000)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda _: list(stream), range(4)))
    assert sorted(item for part in parts for item in part) == list(range(2000))


def test_a_generator_may_be_called_without_waiting(scanning: tuple[Scanner, Proxy]) -> None:
    stream = scanning[1].scan.future(3).result(TIMEOUT)
    assert isinstance(stream, RemoteStream)
    assert list(stream) == [0, 1, 2]


def drained(stream: RemoteStream) -> list[Any]:
    items: list[Any] = []
    done = False
    while not done:
        batch, done = stream.next_batch_later().result(TIMEOUT)
        items += batch
    return items


def test_batches_of_items_come_without_waiting(scanning: tuple[Scanner, Proxy]) -> None:
    stream = scanning[1].scan(100)
    assert drained(stream) == list(range(100))
    assert stream.next_batch_later().result(0) == ([], True)


def test_a_batch_that_nobody_wanted_any_more_loses_no_item(scanning: tuple[Scanner, Proxy]) -> None:
    stream = scanning[1].scan(100)
    for _ in range(3):
        stream.next_batch_later().cancel()
    assert drained(stream) == list(range(100))


def test_the_exception_of_a_generator_comes_behind_its_last_batch(scanning: tuple[Scanner, Proxy]) -> None:
    stream = scanning[1].break_at(3)
    assert [stream.next_batch_later().result(TIMEOUT) for _ in range(3)] == [([n], False) for n in range(3)]
    with pytest.raises(ValueError, match="out of range"):
        stream.next_batch_later().result(TIMEOUT)
    assert stream.next_batch_later().result(TIMEOUT) == ([], True)


def test_an_iterator_and_batches_may_take_turns(scanning: tuple[Scanner, Proxy]) -> None:
    stream = scanning[1].scan(100)
    first = [next(stream) for _ in range(6)]
    batch, _ = stream.next_batch_later().result(TIMEOUT)
    assert [*first, *batch, *stream] == list(range(100))


@pytest.mark.parametrize("reads", [False, True], ids=["nobody reads meanwhile", "others may read meanwhile"])
def test_a_generator_that_moves_something_stands_still_while_somebody_else_holds_the_lock(
    reads: bool,
) -> None:
    scanner = Scanner()
    with served(scanner, key=KEY, reads_while_locked=reads) as (server, proxy):
        stream = proxy.endless()
        assert next(stream) == 0
        with proxied(server.rep_endpoint, protocol=Protocol(KEY)) as other, lock(other):
            assert next(other.endless()) == 0
            made = scanner.made
            with pytest.raises(LockedBy):
                list(stream)
            assert scanner.made == made
            assert scanner.closed.wait(TIMEOUT)


def test_a_generator_that_only_reads_goes_on_under_a_lock_of_others_where_they_may_read() -> None:
    with (
        served(Scanner(), key=KEY, reads_while_locked=True, reading=["scan"]) as (server, proxy),
        proxied(server.rep_endpoint, protocol=Protocol(KEY)) as other,
    ):
        stream = proxy.scan(1000)
        with lock(other):
            assert list(stream) == list(range(1000))
