from __future__ import annotations

import threading

import pytest

from examples.lab.pacing import Tally, publish_paced


class FakeTime(threading.Event):
    """A stop event whose waiting moves a clock instead of the wall's."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            assert timeout is not None
            self.now += timeout
        return self.is_set()


def paced(
    time: FakeTime, costs: list[float], rate_hz: float = 10.0, count: int | None = None
) -> tuple[list[float], Tally]:
    """Publish at 10 Hz, where content i costs costs[i] seconds (0 after the last); give the start times."""
    times: list[float] = []

    def produce(index: int) -> int:
        times.append(round(time.now - 1000.0, 9))
        time.now += costs[index] if index < len(costs) else 0.0
        return index

    tally = publish_paced(
        lambda topic, content: None, "t", produce, time, rate_hz, count=count, clock=time.clock
    )
    return times, tally


def test_contents_go_out_at_absolute_deadlines_whatever_they_cost() -> None:
    times, tally = paced(FakeTime(), [0.0, 0.03, 0.09, 0.01], count=5)
    assert times == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert tally == Tally(published=5, missed=0)


def test_a_thousand_slow_contents_do_not_drift() -> None:
    times, _ = paced(FakeTime(), [0.0999] * 1000, count=1001)
    assert times[-1] == 100.0


def test_deadlines_passed_while_busy_are_counted_and_given_up() -> None:
    times, tally = paced(FakeTime(), [0.0, 0.35], count=4)
    assert times == [0.0, 0.1, 0.5, 0.6]
    assert tally == Tally(published=4, missed=3)


def test_a_late_loop_skips_no_content() -> None:
    seen: list[object] = []
    time = FakeTime()

    def publish(topic: str, content: object) -> None:
        seen.append((topic, content))
        time.now += 0.25

    publish_paced(publish, "t", lambda index: index, time, 10.0, count=4, clock=time.clock)
    assert seen == [("t", 0), ("t", 1), ("t", 2), ("t", 3)]


def test_a_stop_that_is_already_set_publishes_nothing() -> None:
    time = FakeTime()
    time.set()
    assert paced(time, [], count=3) == ([], Tally(0, 0))


def test_a_stop_while_publishing_ends_the_loop_before_the_next_content() -> None:
    stop = threading.Event()
    seen: list[object] = []

    def publish(_topic: str, content: object) -> None:
        seen.append(content)
        if content == 2:
            stop.set()

    assert publish_paced(publish, "t", lambda index: index, stop, 1e6).published == 3
    assert seen == [0, 1, 2]


def test_a_stop_ends_a_loop_that_waits_for_a_far_deadline() -> None:
    stop, first = threading.Event(), threading.Event()
    loop = threading.Thread(
        target=publish_paced, args=(lambda topic, content: first.set(), "t", lambda index: index, stop, 1e-4)
    )
    loop.start()
    try:
        assert first.wait(10)
    finally:
        stop.set()
        loop.join(10)
    assert not loop.is_alive()


def test_an_error_of_publish_ends_the_loop_and_reaches_the_caller() -> None:
    def publish(_topic: str, _content: object) -> None:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        publish_paced(publish, "t", lambda index: index, threading.Event(), 20.0)


@pytest.mark.parametrize("rate_hz", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_no_rate_is_refused(rate_hz: float) -> None:
    with pytest.raises(ValueError, match="rate_hz"):
        publish_paced(lambda topic, content: None, "t", lambda index: index, threading.Event(), rate_hz)


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="count"):
        publish_paced(lambda topic, content: None, "t", lambda index: index, threading.Event(), 1.0, count=-1)
