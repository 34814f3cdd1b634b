from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from pzc.protocol import window as window_module
from pzc.protocol.errors import ReplayedMessage
from pzc.protocol.ids import Stamp
from pzc.protocol.window import HORIZON_MS, QUIET, ReplayWindow, SeenSignatures

from tests.effort import many

NOW = 1_700_000_000_000


def remembered(window: ReplayWindow) -> Any:
    return window._rooms["k"].senders.get(("k", "a", 1)) if "k" in window._rooms else None


def admitted(window: ReplayWindow, stamp: Stamp, sender: str = "a", key_id: str = "k") -> bool:
    try:
        window.admit((key_id, sender, stamp.epoch), stamp.ms, stamp.counter)
    except ReplayedMessage:
        return False
    return True


class Traffic(RuleBasedStateMachine):
    """One sender epoch with a clock that is sometimes set, and a network that delays and repeats."""

    delayed = Bundle("delayed")
    delivered = Bundle("delivered")
    depth = 5

    @initialize()
    def start(self) -> None:
        self.window = ReplayWindow(depth=self.depth)
        self.clock, self.counter = NOW, 0
        self.accepted: list[int] = []

    @rule(target=delayed, step=st.integers(0, 2 * HORIZON_MS))
    def send(self, step: int) -> Stamp:
        self.clock += step
        self.counter += 1
        return Stamp(self.clock, self.counter, 1)

    @rule(by=st.sampled_from([-3_600_000, -HORIZON_MS - 1, 3_600_000]))
    def set_the_clock(self, by: int) -> None:
        self.clock += by

    @rule(target=delivered, stamp=consumes(delayed))
    def deliver(self, stamp: Stamp) -> Stamp:
        newest = not self.accepted or stamp.counter > max(self.accepted)
        behind = len([other for other in self.accepted if other > stamp.counter])
        taken = admitted(self.window, stamp)
        if taken:
            self.accepted.append(stamp.counter)
        assert taken or not newest, "a counter above all others cannot be a replay"
        assert taken or behind > 0
        return stamp

    @rule(stamp=delivered)
    def repeat(self, stamp: Stamp) -> None:
        assert not admitted(self.window, stamp)

    @rule(stamp=delivered, ms=st.integers(-HORIZON_MS, HORIZON_MS))
    def repeat_with_another_time(self, stamp: Stamp, ms: int) -> None:
        assert not admitted(self.window, stamp._replace(ms=stamp.ms + ms))

    @invariant()
    def no_counter_was_accepted_twice(self) -> None:
        assert len(self.accepted) == len(set(self.accepted))

    @invariant()
    def memory_is_bounded(self) -> None:
        state = remembered(self.window)
        if state is not None:
            assert len(state.current) <= self.depth
            assert len(state.previous) <= self.depth


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=many(150), stateful_step_count=40)


def test_messages_of_the_last_minute_are_taken_in_any_order() -> None:
    window = ReplayWindow()
    stamps = [Stamp(NOW + i * 1000, i, 1) for i in range(HORIZON_MS // 1000 + 1)]
    assert all(admitted(window, stamp) for stamp in reversed(stamps))


def test_a_late_message_is_taken_within_the_horizon_after_a_turn() -> None:
    window = ReplayWindow()
    assert admitted(window, Stamp(NOW, 0, 1))
    assert admitted(window, Stamp(NOW + HORIZON_MS + 1, 9, 1))
    assert admitted(window, Stamp(NOW + 2, 1, 1))


def test_a_message_from_before_what_is_remembered_is_refused() -> None:
    window = ReplayWindow()
    for turn in range(3):
        assert admitted(window, Stamp(NOW + turn * (HORIZON_MS + 1), 10 * turn, 1))
    assert remembered(window).floor == 0
    assert not admitted(window, Stamp(NOW + 2 * HORIZON_MS, 0, 1))
    assert admitted(window, Stamp(NOW + 2 * HORIZON_MS, 1, 1))


def test_a_sender_whose_clock_is_set_back_is_still_heard() -> None:
    window = ReplayWindow()
    assert admitted(window, Stamp(NOW, 1, 1))
    assert admitted(window, Stamp(NOW - 600_000, 2, 1))
    assert not admitted(window, Stamp(NOW - 600_000, 2, 1))


def test_a_full_generation_raises_the_floor_to_what_was_forgotten() -> None:
    window = ReplayWindow(depth=4)
    for counter in range(9):
        assert admitted(window, Stamp(NOW, counter, 1))
    state = remembered(window)
    assert (state.floor, state.previous, state.current) == (3, {4, 5, 6, 7}, {8})
    assert not admitted(window, Stamp(NOW, 0, 1))


def test_the_floor_never_falls() -> None:
    window = ReplayWindow(depth=2)
    for counter in (100, 101, 50, 51, 102, 103, 104):
        admitted(window, Stamp(NOW, counter, 1))
    assert remembered(window).floor == 101
    assert not admitted(window, Stamp(NOW, 99, 1))


def test_epochs_senders_and_keys_have_windows_of_their_own() -> None:
    window = ReplayWindow()
    stamp = Stamp(NOW, 1, 1)
    assert admitted(window, stamp)
    assert admitted(window, stamp._replace(epoch=2))
    assert admitted(window, stamp, sender="b")
    assert admitted(window, stamp, key_id="l")
    assert len(window) == 4
    assert not admitted(window, stamp)


def test_the_sender_that_was_heard_least_recently_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "SENDERS_PER_KEY", 2)
    window = ReplayWindow()
    stamp = Stamp(NOW, 1, 1)
    for sender in ("a", "b"):
        assert admitted(window, stamp, sender)
    assert not admitted(window, stamp, "a")
    assert admitted(window, stamp, "c")
    assert len(window) == 2
    assert not admitted(window, stamp, "a")


def test_a_sender_whose_clock_is_ahead_shuts_out_nobody_when_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window_module, "SENDERS_PER_KEY", 2)
    window = ReplayWindow()
    assert admitted(window, Stamp(NOW + 3_600_000, 1, 1), "ahead")
    assert all(admitted(window, Stamp(NOW + number, 1, 1), f"s{number}") for number in range(5))
    assert not admitted(window, Stamp(NOW + 3_600_000, 1, 1), "ahead")


def test_a_sender_whose_clock_is_behind_stays_as_long_as_it_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "SENDERS_PER_KEY", QUIET + 1)
    window = ReplayWindow()
    for number in range(3 * QUIET):
        assert admitted(window, Stamp(NOW + number, 1, 1), f"s{number}")
        assert admitted(window, Stamp(NOW - 3_600_000, number, 1), "behind")


def test_what_a_sender_sent_before_it_was_forgotten_is_refused_after_it_came_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window_module, "SENDERS_PER_KEY", 1)
    window = ReplayWindow()
    assert admitted(window, Stamp(NOW, 1, 1), "a")
    assert admitted(window, Stamp(NOW + 1, 1, 1), "b")
    assert admitted(window, Stamp(NOW + 2, 2, 1), "a")
    assert not admitted(window, Stamp(NOW, 1, 1), "a")


class Crowd(RuleBasedStateMachine):
    """More senders of one key than there is room for, whose clocks differ, and a network that repeats."""

    delivered = Bundle("delivered")
    most = 3

    @initialize()
    def start(self) -> None:
        self.before, window_module.SENDERS_PER_KEY = window_module.SENDERS_PER_KEY, self.most
        self.window = ReplayWindow()
        self.time = NOW
        self.counter = 0
        self.newest: dict[str, int] = {}

    @rule(target=delivered, sender=st.sampled_from("abcdefgh"), step=st.integers(0, 5))
    def say(self, sender: str, step: int) -> tuple[str, Stamp, bool]:
        self.time += step
        self.counter += 1
        ahead = {"a": 40, "b": 100, "h": -20}.get(sender, 0)
        stamp = Stamp(self.time + ahead, self.counter, 1)
        taken = admitted(self.window, stamp, sender)
        reached = [each for each in self.newest.values() if each >= stamp.ms]
        assert taken or len(reached) >= self.most, "only a time that enough have reached shuts others out"
        if taken:
            self.newest[sender] = max(stamp.ms, self.newest.get(sender, 0))
        return sender, stamp, taken

    @rule(said=delivered)
    def repeat(self, said: tuple[str, Stamp, bool]) -> None:
        sender, stamp, taken = said
        if taken:
            assert not admitted(self.window, stamp, sender)

    @invariant()
    def memory_is_bounded(self) -> None:
        assert len(self.window) <= self.most

    def teardown(self) -> None:
        window_module.SENDERS_PER_KEY = self.before


TestCrowd = Crowd.TestCase
TestCrowd.settings = settings(max_examples=many(150), stateful_step_count=60)


def test_what_was_forgotten_of_a_sender_is_refused_and_what_is_newer_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(window_module, "SENDERS_PER_KEY", 1)
    window = ReplayWindow()
    stamp = Stamp(NOW, 1, 1)
    assert admitted(window, stamp, "a")
    assert admitted(window, stamp, "b")
    assert not admitted(window, stamp, "a")
    assert not admitted(window, stamp._replace(ms=NOW - 1), "c")
    assert admitted(window, stamp._replace(ms=NOW + 1), "a")


def test_a_key_that_fills_its_room_takes_none_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "SENDERS_PER_KEY", 2)
    window = ReplayWindow()
    stamp = Stamp(NOW, 1, 1)
    assert admitted(window, stamp, "a")
    for number in range(5):
        admitted(window, stamp._replace(ms=NOW + number), f"s{number}", key_id="l")
    assert len(window) == 3
    assert not admitted(window, stamp, "a")
    assert admitted(window, stamp._replace(ms=NOW - 1), "b")


def test_a_replay_is_told_with_its_sender() -> None:
    window = ReplayWindow()
    window.admit(("k", "camera", 1), NOW, 7)
    with pytest.raises(ReplayedMessage, match="message 7 of camera was already accepted once"):
        window.admit(("k", "camera", 1), NOW, 7)


def test_a_signature_is_accepted_once() -> None:
    seen = SeenSignatures()
    seen.admit(b"one")
    seen.admit(b"two")
    with pytest.raises(ReplayedMessage, match="PZC00"):
        seen.admit(b"one")
