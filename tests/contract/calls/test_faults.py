from __future__ import annotations

import logging
import os
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent, CallTimeout, PeerLost, Protocol, ProtocolError, Proxy, Server, SignatureError, caller

from tests.contract.acceptance import acceptance
from tests.contract.rigs.calling import (
    KEY,
    TIMEOUT,
    Frames,
    Gate,
    Middle,
    RawPeer,
    ServerProcess,
    counts,
    in_thread,
    lines,
    proxied,
    run_in_fork,
)
from tests.contract.rigs.endpoints import free_endpoint
from tests.contract.rigs.faults import Metronome

logger = logging.getLogger("tests.faults")

LOST = (CallTimeout, PeerLost)
MINUTES = 60


def signed(dialect: str = "PZC01") -> Protocol:
    return Protocol(KEY, dialect=dialect)


@pytest.fixture
def started(tmp_path: Path) -> str:
    """A pipe that becomes readable when the call that writes into it runs."""
    path = str(tmp_path / "started")
    os.mkfifo(path)
    return path


def wait_until_written(path: str) -> None:
    with open(path, encoding="utf-8") as pipe:
        assert pipe.readline()


def timed_failure(function: Any) -> tuple[float, BaseException | None]:
    begin = time.monotonic()
    try:
        function()
    except LOST as exc:
        return time.monotonic() - begin, exc
    return time.monotonic() - begin, None


@acceptance("P3")
@pytest.mark.serial
@pytest.mark.usefixtures("beside_originals")
@pytest.mark.parametrize("way", ["PZC01 auto", "PZC01 unix", "PZC01 tcp", "PZC00 tcp"])
def test_a_server_killed_in_a_call_is_an_error_in_time_and_the_proxy_works_after_its_restart(
    started: str, way: str
) -> None:
    dialect, transport = way.split()
    with ServerProcess() as server, Metronome() as metronome:
        with proxied(server.endpoint, timeout=1.0, transport=transport, protocol=signed(dialect)) as proxy:
            begin = time.monotonic()
            thread, outcome = in_thread(lambda: timed_failure(lambda: proxy.stall(started, 10.0)))
            wait_until_written(started)
            server.kill()
            thread.join(TIMEOUT)
            (seconds, error) = outcome[0]
            assert isinstance(error, LOST)
            # An original keeps no results that could be asked for until the timeout.
            assert (1.0 if dialect == "PZC01" else 0.0) <= seconds
            assert seconds < 1.3 + metronome.late(begin, time.monotonic())
            assert server.endpoint in str(error)
            with ServerProcess(rep=server.endpoint) as again:
                begin = time.monotonic()
                assert proxy.pid() == again.process.pid
                assert time.monotonic() - begin < 3
    logger.info("seconds until the error: %s", seconds)


@pytest.mark.serial
@pytest.mark.parametrize(
    "transport", ["auto", *(pytest.param(each, marks=pytest.mark.slow) for each in ("unix", "tcp"))]
)
def test_a_server_killed_in_a_call_of_a_long_timeout_is_an_error_after_three_seconds(
    started: str, transport: str
) -> None:
    with ServerProcess() as server:
        with proxied(server.endpoint, timeout=30.0, transport=transport, protocol=signed()) as proxy:
            thread, outcome = in_thread(lambda: timed_failure(lambda: proxy.stall(started, 10.0)))
            wait_until_written(started)
            killed = time.monotonic()
            server.kill()
            thread.join(TIMEOUT)
            assert isinstance(outcome[0][1], PeerLost)
            assert 2.5 < time.monotonic() - killed < 3.5
    logger.info("seconds until the error: %s", outcome[0][0])


@pytest.mark.parametrize("transport", ["auto", "unix", "tcp"])
def test_a_frozen_server_keeps_nobody_longer_than_the_timeout_who_has_to_connect_first(
    started: str, transport: str
) -> None:
    with ServerProcess() as server:
        with proxied(server.endpoint, timeout=0.3, transport=transport, protocol=signed()) as proxy:
            pid = proxy.pid
            thread, _ = in_thread(
                lambda: timed_failure(lambda: proxy.stall.options(timeout=2)(started, 10.0))
            )
            wait_until_written(started)  # the call has the only connection that there is
            server.freeze()
            seconds, error = timed_failure(pid)
            assert isinstance(error, LOST)
            assert seconds < 0.6
            thread.join(TIMEOUT)


def test_a_one_way_call_reaches_a_restarted_server_that_nothing_else_was_sent_to(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess())
        proxies = [
            stack.enter_context(proxied(server.endpoint, transport=way, timeout=TIMEOUT, protocol=signed()))
            for way in ("auto", "tcp")
        ]
        writes = [proxy.write for proxy in proxies]
        for number, write in enumerate(writes):
            server.kill()
            server = stack.enter_context(ServerProcess(rep=server.endpoint))
            write.oneway(str(notes), f"line {number}")
            assert write(str(notes), "behind it") == "behind it"
    assert lines(notes) == ["line 0", "behind it", "line 1", "behind it"]


class Visited:
    """Notes by which way it was called."""

    def __init__(self) -> None:
        self.ways: queue.SimpleQueue[str] = queue.SimpleQueue()

    def visit(self) -> None:
        by = caller()
        assert by is not None
        self.ways.put(by.host)


@pytest.mark.needs("unix")
def test_a_one_way_call_takes_the_way_of_the_calls_behind_it_to_a_restarted_server_too() -> None:
    visited, endpoint = Visited(), free_endpoint()
    with ExitStack() as stack:
        with Server(visited, endpoint, protocol=signed()):
            proxy = stack.enter_context(proxied(endpoint, timeout=TIMEOUT, protocol=signed()))
            proxy.visit.oneway()
            assert visited.ways.get(timeout=TIMEOUT) == "unix"
        with Server(visited, endpoint, protocol=signed()):
            proxy.visit.oneway()
            assert visited.ways.get(timeout=TIMEOUT) == "unix"


@pytest.mark.usefixtures("beside_originals")
@pytest.mark.parametrize("dialect", ["PZC01", "PZC00"])
def test_a_proxy_follows_its_server_through_restarts(dialect: str) -> None:
    endpoint = "tcp://127.0.0.1:0"
    with ServerProcess(rep=endpoint) as first:
        endpoint = first.endpoint
        with proxied(endpoint, timeout=TIMEOUT, protocol=signed(dialect)) as proxy:
            assert proxy.pid() == first.process.pid
            first.kill()
            for ask in (lambda: proxy.pid(), lambda: proxy.pid.future().result(TIMEOUT)):
                with ServerProcess(rep=endpoint) as again:
                    assert ask() == again.process.pid


def test_a_frozen_server_times_out_and_answers_again_after_it_thawed(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with ServerProcess() as server, proxied(server.endpoint, timeout=TIMEOUT, protocol=signed()) as proxy:
        hasty = proxy.write.options(timeout=0.3)
        server.freeze()
        seconds, error = timed_failure(lambda: hasty(str(notes), "frozen"))
        assert isinstance(error, LOST)
        assert seconds < 2
        server.thaw()
        assert proxy.write(str(notes), "thawed") == "thawed"
        assert lines(notes).count("thawed") == 1
        assert lines(notes).count("frozen") <= 1


@pytest.mark.usefixtures("beside_originals")
@pytest.mark.parametrize("dialect", ["PZC01", "PZC00"])
@pytest.mark.parametrize("how", ["frozen", "dead"])
def test_what_a_gone_server_did_not_execute_is_not_executed_by_the_next_one(
    tmp_path: Path, dialect: str, how: str
) -> None:
    notes = tmp_path / "notes"
    with (
        ServerProcess() as server,
        proxied(server.endpoint, timeout=TIMEOUT, protocol=signed(dialect)) as proxy,
    ):
        write = proxy.write
        hasty = write.options(timeout=0.3)
        if how == "frozen":
            server.freeze()
        else:
            server.kill()
        with pytest.raises(LOST):
            hasty.future(str(notes), "stale future").result(TIMEOUT)
        with pytest.raises(LOST):
            hasty(str(notes), "stale call")
        server.kill()
        with ServerProcess(rep=server.endpoint):
            write(str(notes), "new call")
            write.future(str(notes), "new future").result(TIMEOUT)
        assert lines(notes) == ["new call", "new future"]


def test_a_result_that_its_server_took_to_the_grave_is_an_error() -> None:
    with ServerProcess() as server, proxied(server.endpoint, timeout=1.0, protocol=signed()) as proxy:
        future = proxy.never()
        server.kill()
        with pytest.raises(LOST):
            future.result(TIMEOUT)


def test_threads_that_wait_for_a_killed_server_all_end_and_all_work_again(started: str) -> None:
    with ServerProcess() as server:
        with proxied(server.endpoint, timeout=1.0, protocol=signed()) as proxy, ThreadPoolExecutor(8) as pool:
            first = pool.submit(timed_failure, lambda: proxy.stall(started, 10.0))
            wait_until_written(started)
            others = [pool.submit(timed_failure, proxy.pid) for _ in range(7)]
            server.kill()
            assert all(isinstance(call.result(TIMEOUT)[1], LOST) for call in [first, *others])
            with ServerProcess(rep=server.endpoint) as again:
                assert list(pool.map(lambda _: proxy.pid(), range(8))) == [again.process.pid] * 8


@pytest.mark.usefixtures("beside_originals")
@pytest.mark.parametrize("dialect", ["PZC01", "PZC00"])
def test_a_man_in_the_middle_cannot_have_a_call_executed_twice(dialect: str) -> None:
    """Whatever is copied, altered or held back, the caller may get an error, and the call runs once at most."""

    def flip(frames: Frames) -> Frames:
        return [*frames[:2], bytes((frames[2][0] ^ 1,)) + frames[2][1:], *frames[3:]]

    def twice(way: str, number: int, frames: Frames) -> list[Frames]:
        return [frames, frames] if way == "request" else [frames]

    def twice_with_the_second_answer_only(way: str, number: int, frames: Frames) -> list[Frames]:
        if way == "request":
            return [frames, frames]
        return [frames] if number % 2 == 0 else []

    def altered_first(way: str, number: int, frames: Frames) -> list[Frames]:
        return [flip(frames), frames] if way == "request" else [frames]

    def altered_answer(way: str, number: int, frames: Frames) -> list[Frames]:
        return [frames] if way == "request" else [flip(frames)]

    for alter in (twice, twice_with_the_second_answer_only, altered_first, altered_answer):
        gate, active = Gate(), threading.Event()

        def when_active(
            way: str, number: int, frames: Frames, alter: Any = alter, active: threading.Event = active
        ) -> list[Frames]:
            return alter(way, number, frames) if active.is_set() else [frames]

        with (
            Server(gate, protocol=signed()) as server,
            Middle(server.rep_endpoint, when_active) as middle,
            proxied(middle.endpoint, timeout=0.5, protocol=signed(dialect)) as proxy,
        ):
            count = proxy.count
            active.set()
            with suppress(ProtocolError, CallTimeout):
                count()
            active.clear()
            with proxied(middle.endpoint, timeout=TIMEOUT, protocol=Protocol(KEY, "json")) as other:
                assert other.label == "gate"  # it waits behind every copy in the lane
            assert gate.calls == 1, alter.__name__


def test_a_refusal_by_another_server_of_the_same_key_does_not_make_the_call_run_twice() -> None:
    gate, other_gate = Gate(), Gate()
    with Server(gate, protocol=signed()) as server, Server(other_gate, protocol=signed()) as other:
        captured: list[Frames] = []
        active = False

        def alter(way: str, number: int, frames: Frames) -> list[Frames]:
            if not active or len(captured) == 2:
                return [frames]
            captured.append(frames)
            if way == "request":
                return [frames]
            with RawPeer(other.rep_endpoint) as peer:
                return [peer.ask(captured[0])]

        with (
            Middle(server.rep_endpoint, alter) as middle,
            proxied(middle.endpoint, timeout=TIMEOUT, protocol=signed()) as proxy,
        ):
            count = proxy.count
            active = True
            with pytest.raises(SignatureError, match="does not match"):
                count()
        assert (gate.calls, other_gate.calls) == (1, 0)


@acceptance("P6")
def test_a_captured_request_is_refused_and_counted() -> None:
    gate = Gate()
    with Server(gate, protocol=signed()) as server:
        with (
            Middle(server.rep_endpoint, lambda way, number, frames: [frames]) as middle,
            proxied(middle.endpoint, protocol=signed()) as proxy,
        ):
            count = proxy.count
            while not middle.seen.empty():
                middle.seen.get()
            assert count() == 1
            way, captured = middle.seen.get(timeout=TIMEOUT)
        assert way == "request"
        for _ in range(3):
            with RawPeer(server.rep_endpoint) as peer:
                peer.ask(captured)
        assert gate.calls == 1
        assert counts(server)["refused_ReplayedMessage"] == 3


@pytest.mark.parametrize("skew", [10 * MINUTES, -10 * MINUTES])
def test_machines_whose_clocks_differ_by_minutes_talk_in_both_directions(tmp_path: Path, skew: int) -> None:
    notes, seen = tmp_path / "notes", queue.SimpleQueue[str]()
    with (
        ServerProcess(skew=skew) as server,
        Middle(server.endpoint, lambda way, number, frames: [frames]) as middle,
        proxied(middle.endpoint, timeout=TIMEOUT, protocol=signed()) as proxy,
    ):
        proxy.written.connect(seen.put)
        for line in ("one", "two"):
            assert proxy.write(str(notes), line) == line
            assert seen.get(timeout=TIMEOUT) == line
        assert proxy.write.future(str(notes), "three").result(TIMEOUT) == "three"
        captured = [middle.seen.get() for _ in range(middle.seen.qsize())]
        for frames in [frames for way, frames in captured if way == "request"]:
            with RawPeer(server.endpoint) as peer:
                peer.ask(frames)
        assert proxy.write(str(notes), "last") == "last"
    assert lines(notes) == ["one", "two", "three", "last"]


def test_a_clock_that_jumps_costs_nothing_but_a_new_handshake(tmp_path: Path) -> None:
    notes, seen = tmp_path / "notes", queue.SimpleQueue[str]()
    with ServerProcess() as server, proxied(server.endpoint, timeout=TIMEOUT, protocol=signed()) as proxy:
        assert proxy.write(str(notes), "before") == "before"
        for ask in (proxy.write, lambda *args: proxy.write.future(*args).result(TIMEOUT)):
            for step in (-3 * MINUTES, 3 * MINUTES):  # it goes wrong, and is put right
                proxy.step(step)
                assert ask(str(notes), "after") == "after"
        proxy.written.connect(seen.put)
        proxy.write(str(notes), "last")
        assert seen.get(timeout=TIMEOUT) == "last"
    assert lines(notes) == ["before", *["after"] * 4, "last"]


@pytest.mark.needs("fork")
def test_a_forked_server_is_reached_by_its_parent() -> None:
    reader, writer = os.pipe()

    def child() -> None:
        with Server(Gate(), protocol=signed()) as server:
            os.write(writer, server.rep_endpoint.encode())
            assert server.join(TIMEOUT)

    with Agent(protocol=signed()):  # the child inherits a running loop and must not touch it
        thread, outcome = in_thread(lambda: run_in_fork(child))
        endpoint = os.read(reader, 100).decode()
        with Proxy(endpoint, protocol=signed(), timeout=TIMEOUT) as proxy:
            assert proxy.count() == 1
            proxy._proxy_stop_server()
        thread.join(TIMEOUT)
    os.close(reader)
    os.close(writer)
    assert outcome == [0]
