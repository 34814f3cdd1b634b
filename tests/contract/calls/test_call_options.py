from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, wait
from typing import Any

import pytest

import pzc
from pzc import (
    Agent,
    CallCancelled,
    CallTimeout,
    ConfigError,
    PendingCall,
    Protocol,
    Proxy,
    Refused,
    Server,
    idempotent,
)

from tests.contract.rigs import original
from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, Instrument, in_thread, proxied, served, until


class Counter:
    """Counts what reached it."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.came = threading.Semaphore(0)

    def note(self, value: Any = None) -> int:
        self.calls.append(value)
        self.came.release()
        return len(self.calls)

    @idempotent
    def read(self) -> int:
        return len(self.calls)

    def fail(self) -> None:
        self.came.release()
        raise ValueError("out of range")


def test_options_leave_the_attribute_that_they_came_from_alone() -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        with pytest.raises(CallTimeout):
            proxy.wait.options(timeout=0.1)()
        thread, outcome = in_thread(lambda: proxy.wait.options(timeout=TIMEOUT).options()())
        gate.opened.set()
        thread.join(TIMEOUT)
        assert outcome == ["through"]


def test_options_hold_for_every_kind_of_call_and_for_items() -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        with pytest.raises(CallTimeout):
            proxy.wait.options(timeout=0.1).future().result(TIMEOUT)
        gate.opened.set()
    with served(Instrument()) as (_, psu):
        assert psu.calibration.options(timeout=TIMEOUT)[1] == 2


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_timeout_that_cannot_be_used_is_refused(seconds: float) -> None:
    with served(Instrument()) as (server, psu):
        with pytest.raises(ConfigError, match="positive number of seconds"):
            psu.ramp.options(timeout=seconds)
        with pytest.raises(ConfigError, match="positive number of seconds"):
            Proxy(server.rep_endpoint, timeout=seconds)


def test_a_transport_that_does_not_exist_is_refused() -> None:
    with served(Instrument()) as (server, psu):
        with pytest.raises(ConfigError, match="auto, unix, tcp"):
            psu.ramp.options(transport="pigeon")
        with pytest.raises(ConfigError, match="auto, unix, tcp"):
            Proxy(server.rep_endpoint, transport="pigeon")


def test_calls_have_no_transport_inside_a_process() -> None:
    with served(Instrument()) as (server, psu):
        with pytest.raises(ConfigError, match="for notifications only: calls inside a process take 'auto'"):
            psu.ramp.options(transport="inproc")
        with pytest.raises(ConfigError, match="for notifications only: calls inside a process take 'auto'"):
            Proxy(server.rep_endpoint, transport="inproc")


def test_calls_take_any_transport_where_the_setting_is_for_notifications_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PZC_TRANSPORT", "inproc")
    with served(Instrument()) as (_, psu):
        assert psu.calibration[1] == 2


def test_a_call_that_timed_out_says_its_id() -> None:
    gate = Gate()
    with served(gate) as (server, proxy):
        with pytest.raises(CallTimeout) as caught:
            proxy.wait.options(timeout=0.1)()
        gate.opened.set()
        assert caught.value.call_id.startswith("urn:uuid:")
        assert caught.value.call_id.endswith(f"@{server.rep_endpoint}")


def test_a_future_that_timed_out_says_its_id() -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        future = proxy.wait.options(timeout=0.1).future()
        with pytest.raises(CallTimeout) as caught:
            future.result(TIMEOUT)
        gate.opened.set()
        assert caught.value.call_id == future.call_id


def test_a_one_way_call_runs_and_gives_nothing() -> None:
    counter = Counter()
    with served(counter, key=KEY) as (_, proxy):
        assert proxy.note.oneway("x") is None
        assert counter.came.acquire(timeout=TIMEOUT)
        assert counter.calls == ["x"]


def test_one_way_calls_of_a_thread_keep_their_order_among_its_other_calls() -> None:
    counter = Counter()
    with served(counter) as (_, proxy):
        for number in range(50):
            proxy.note.oneway(number)
        for _ in range(50):
            assert counter.came.acquire(timeout=TIMEOUT)
        assert counter.calls == list(range(50))


class Output:
    """What a method gives, and nobody but its client holds."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    def off(self) -> None:
        self._counter.note()


class Supply:
    """Gives a new output each time."""

    def __init__(self) -> None:
        self.counter, self.level = Counter(), 0

    def output(self) -> Output:
        return Output(self.counter)

    def switch_off(self, output: Output) -> None:
        output.off()

    def set(self, level: int) -> None:
        self.level = level


@pytest.mark.parametrize("transport", ["auto", "unix", "tcp"])
@pytest.mark.parametrize(
    "use",
    [lambda psu: psu.output().off.oneway(), lambda psu: psu.switch_off.oneway(psu.output())],
    ids=["its method", "as an argument"],
)
def test_a_one_way_call_of_what_nobody_holds_any_longer_runs(
    use: Callable[[Any], Any], transport: str
) -> None:
    supply = Supply()
    with Server(supply) as server, Proxy(server.rep_endpoint, transport=transport) as psu:
        for _ in range(100):
            use(psu)
        for number in range(100):
            assert supply.counter.came.acquire(timeout=TIMEOUT), f"{number} of 100 ran"
        assert psu.level == 0  # behind which the last one is held no longer
        until(lambda: not server.statistics()["handles"])


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_the_last_one_way_call_of_what_nobody_holds_runs_when_its_proxy_is_closed_at_once(
    transport: str,
) -> None:
    supply = Supply()
    with Server(supply) as server:
        for number in range(100):
            with Proxy(server.rep_endpoint, transport=transport) as psu:
                psu.output().off.oneway()
            assert supply.counter.came.acquire(timeout=TIMEOUT), f"{number} of 100 ran"
        until(lambda: not server.statistics()["handles"])


@pytest.mark.parametrize("transport", ["auto", "unix", "tcp"])
def test_a_call_does_not_overtake_a_one_way_call_of_its_thread(transport: str) -> None:
    with Server(Supply()) as server, Proxy(server.rep_endpoint, transport=transport) as psu:
        for level in range(1, 100):
            psu.set.oneway(level)
            assert psu.level == level


def test_a_one_way_call_that_raises_disturbs_nothing() -> None:
    counter = Counter()
    with served(counter) as (_, proxy):
        proxy.fail.oneway()
        assert counter.came.acquire(timeout=TIMEOUT)
        assert proxy.note() == 1


def test_a_future_that_is_done_cannot_be_cancelled() -> None:
    with served(Instrument()) as (_, psu):
        future = psu.ramp.future(2)
        assert future.result(TIMEOUT) == 4
        assert not future.cancel()
        assert future.result(0) == 4


def test_futures_that_are_cancelled_while_their_answers_come_end_either_way() -> None:
    with served(Instrument()) as (_, psu):
        for number in range(200):
            future = psu.ramp.future(number)
            if future.cancel():
                with pytest.raises(CancelledError):
                    future.result(0)
            else:
                assert future.result(0) == 2 * number


def test_a_future_of_a_method_that_returned_one_can_be_cancelled() -> None:
    class Never:
        def never(self) -> Any:
            from concurrent.futures import Future

            return Future()

    with served(Never()) as (_, proxy):
        future = proxy.never()
        assert isinstance(future, PendingCall)
        assert future.cancel()
        assert future.cancelled()


@pytest.mark.usefixtures("beside_originals")
def test_an_original_pizco_gets_a_timeout_and_refuses_the_rest() -> None:
    key = KEY.encode()
    with (
        original.Server(key, original.invented(key)) as server,
        proxied(server.endpoint, timeout=TIMEOUT, protocol=Protocol(KEY, "pickle2")) as psu,
    ):
        assert psu.ramp.options(timeout=TIMEOUT)(2) == 4
        for attempt in (
            lambda: psu.ramp.oneway(2),
            lambda: psu.ramp.options(idempotent=True),
            lambda: psu.ramp.options(transport="unix"),
        ):
            with pytest.raises(Refused, match="an original Pizco cannot"):
                attempt()


def test_a_transport_comes_from_the_argument_else_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_TRANSPORT", "tcp")

    class Asked:
        def carrier(self) -> str:
            made_by = pzc.caller()
            return "" if made_by is None else made_by.host

    with served(Asked()) as (server, asked):
        assert asked.carrier() == "tcp"
        with proxied(server.rep_endpoint, transport="unix") as other:
            assert other.carrier.options(transport="tcp")() == "tcp"
            assert other.carrier() == "unix"


def test_a_future_that_is_cancelled_cancels_its_call_before_it_starts() -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        first = proxy.wait.future()
        assert gate.entered.wait(TIMEOUT)
        second = proxy.count.future()
        assert second.cancel()
        assert second.cancel()
        with pytest.raises(CancelledError):
            second.result(0)
        assert wait([second], TIMEOUT).done == {second}
        last = proxy.wait.future()
        rest = [("wait", "running"), ("wait", "waiting")]
        until(lambda: [(call.member, call.state) for call in pzc.running(proxy)] == rest)
        gate.opened.set()
        assert (first.result(TIMEOUT), last.result(TIMEOUT)) == ("through", "through")
        assert gate.calls == 2


def test_a_call_that_was_cancelled_by_another_raises_that() -> None:
    gate = Gate()
    with served(gate) as (server, proxy), Agent() as other:
        running = proxy.wait.future()
        assert gate.entered.wait(TIMEOUT)
        waiting = proxy.count.future()
        until(lambda: len(pzc.running(proxy)) == 2)
        word = {"pzc": "cancel", "id": waiting.call_id.partition("@")[0]}
        assert other.request(server.rep_endpoint, word, TIMEOUT)["state"] == "removed"
        gate.opened.set()
        with pytest.raises(CallCancelled):
            waiting.result(TIMEOUT)
        assert running.result(TIMEOUT) == "through"


def test_a_cancelled_future_tells_its_callbacks_once() -> None:
    gate = Gate()
    told: list[object] = []
    with served(gate) as (_, proxy):
        future = proxy.wait.future()
        future.add_done_callback(told.append)
        assert gate.entered.wait(TIMEOUT)
        future.cancel()
        gate.opened.set()
        assert proxy.count() == 2
    assert told == [future]


def test_a_dropped_future_lets_the_call_go_on() -> None:
    counter = Counter()
    with served(counter) as (server, _):
        proxy = Proxy(server.rep_endpoint)
        proxy.note.future()
        del proxy
        gc.collect()
        assert counter.came.acquire(timeout=TIMEOUT)
