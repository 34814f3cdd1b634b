"""What a registry knows of processes, and who is told what, in any order of events."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pzc.delivery.standstill import Standstill
from pzc.discovery.directory import SILENCE
from pzc.discovery.registry_state import RegistryState, Views
from pzc.protocol.errors import Refused
from pzc.protocol.message import Identity

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))
BEAT = Views((b"beat here",), (b"beat there",))
SAID = Views((b"loopback",), (b"10.0.0.7",))
OWNER, THIEF, OTHER = Identity("a key", "owner"), Identity("a key", "thief"), Identity("another", "owner")


def _with(*processes: bytes, host: str = "rack") -> RegistryState:
    state = RegistryState()
    for process in processes:
        state.whole(process, OWNER, host, BEAT, SAID, 0.0)
    return state


def test_a_newcomer_is_told_everything_the_heartbeat_first() -> None:
    news = _with(A).news(0, B, "elsewhere")
    assert news.datagrams == [b"beat there", b"10.0.0.7"]


def test_a_process_of_the_same_host_gets_the_addresses_of_loopback() -> None:
    assert _with(A).news(0, B, "rack").datagrams == [b"beat here", b"loopback"]


def test_whoever_names_no_host_gets_no_address_of_loopback() -> None:
    assert _with(A, host="").news(0, B, "").datagrams == [b"beat there", b"10.0.0.7"]


def test_nobody_is_told_of_itself() -> None:
    assert not _with(A).news(0, A, "rack")


def test_what_was_told_is_not_told_again() -> None:
    state = _with(A)
    assert not state.news(state.news(0, B, "rack").cursor, B, "rack")


def test_a_change_is_told() -> None:
    state = _with(A)
    cursor = state.news(0, B, "rack").cursor
    state.whole(A, OWNER, "rack", BEAT, Views((b"new",), ()), 1.0)
    assert state.news(cursor, B, "rack").datagrams == [b"beat here", b"new"]


def test_a_sign_of_life_is_no_news() -> None:
    state = _with(A)
    cursor = state.news(0, B, "rack").cursor
    assert state.hear(A, OWNER, BEAT, 1.0)
    assert not state.news(cursor, B, "rack")


def test_an_unknown_process_is_to_tell_its_whole() -> None:
    assert not RegistryState().hear(A, OWNER, BEAT, 0.0)


def test_a_silent_process_is_gone_and_that_is_told() -> None:
    state = _with(A)
    cursor = state.news(0, B, "rack").cursor
    assert state.tick(SILENCE - 0.01) == []
    assert state.tick(SILENCE) == [A]
    assert state.news(cursor, B, "rack").gone == [A]


def test_a_process_that_is_heard_stays() -> None:
    state = _with(A)
    state.hear(A, OWNER, BEAT, 3.0)
    assert state.tick(SILENCE + 1) == []
    assert state.next_deadline == 3.0 + SILENCE


def test_nobody_was_silent_while_the_registry_stood_still() -> None:
    state = _with(A)
    state.excuse(10.0, 11.0)
    assert state.tick(10.0 + SILENCE / 2) == []
    assert state.tick(10.1 + SILENCE) == [A]


def test_a_registry_that_stands_still_again_and_again_finds_who_is_dead() -> None:
    state, standstill, period = _with(A), Standstill(1.0, 0.0), 2.0
    times = [period * number for number in range(1, int(SILENCE * period) + 1)]
    for now in times:
        state.excuse(standstill.look(now), now)
    assert state.tick(times[-1]) == [A]


def test_a_process_that_says_goodbye_is_gone_at_once() -> None:
    state = _with(A)
    state.bye(A, OWNER)
    assert state.news(0, B, "rack").gone == [A]


def test_a_process_that_came_back_is_not_told_as_gone() -> None:
    state = _with(A)
    state.bye(A, OWNER)
    state.whole(A, OWNER, "rack", BEAT, SAID, 1.0)
    assert state.news(0, B, "rack").gone == []


@pytest.mark.parametrize("act", ["hear", "whole"])
def test_another_agent_cannot_speak_for_a_process(act: str) -> None:
    state = _with(A)
    more = (BEAT, 1.0) if act == "hear" else ("rack", BEAT, Views(), 1.0)
    with pytest.raises(Refused, match="another agent"):
        getattr(state, act)(A, THIEF, *more)
    assert state.news(0, B, "rack").datagrams == [b"beat here", b"loopback"]


def test_another_agent_cannot_say_goodbye_for_a_process() -> None:
    state = _with(A)
    state.bye(A, THIEF)
    assert len(state) == 1


def test_one_process_more_than_there_is_room_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pzc.discovery.registry_state.PROCESSES", 1)
    state = RegistryState()
    state.whole(A, OWNER, "", BEAT, SAID, 0.0)
    with pytest.raises(Refused, match="with one key"):
        state.whole(B, OWNER, "", BEAT, SAID, 0.0)
    state.whole(A, OWNER, "", BEAT, SAID, 1.0)
    state.whole(C, OTHER, "", BEAT, SAID, 1.0)
    state.bye(A, OWNER)
    state.whole(B, OWNER, "", BEAT, SAID, 2.0)


def test_more_bytes_than_there_is_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pzc.discovery.registry_state._BYTES", 20)
    state = RegistryState()
    state.whole(A, OWNER, "", BEAT, Views((b"x" * 15,)), 0.0)
    with pytest.raises(Refused, match="at most 20 bytes"):
        state.whole(B, OWNER, "", BEAT, Views((b"x" * 6,)), 0.0)
    assert state.size == 15
    state.whole(C, OTHER, "", BEAT, Views((b"x" * 6,)), 1.0)
    state.bye(A, OWNER)
    state.whole(B, OWNER, "", BEAT, Views((b"x" * 6,)), 0.0)


def test_much_news_come_in_parts() -> None:
    state = _with(A, B, C)
    first = state.news(0, b"", "rack", max_bytes=30)
    assert first.datagrams == [*BEAT.local, *SAID.local]
    assert first.cursor < state.cursor
    second = state.news(first.cursor, b"", "rack", max_bytes=40)
    assert second.datagrams == [*BEAT.local, *SAID.local] * 2
    assert second.cursor == state.cursor


class Counting(int):
    """A cursor that counts with how many changes it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        type(self).compared += 1
        return int(self) < other


def test_what_is_told_of_who_is_gone_costs_what_is_new() -> None:
    state = RegistryState()
    for number in range(100):
        process = number.to_bytes(16, "big")
        state.whole(process, OWNER, "rack", BEAT, SAID, 0.0)
        state.bye(process, OWNER)
    news = state.news(Counting(state.cursor - 2), A, "rack")
    assert news.gone == [(99).to_bytes(16, "big")]
    assert Counting.compared <= 4


class AnyOrder(RuleBasedStateMachine):
    """Three processes, two readers with cursors of their own: in the end each reader knows who is there."""

    processes = st.sampled_from((A, B, C))
    readers = st.sampled_from((b"r" * 16, b"s" * 16))

    def __init__(self) -> None:
        super().__init__()
        self.state = RegistryState()
        self.now = 0.0
        self.heard: dict[bytes, float] = {}
        self.said: dict[bytes, Views] = {}
        self.cursors = {b"r" * 16: 0, b"s" * 16: 0}
        self.believed: dict[bytes, set[bytes]] = {reader: set() for reader in self.cursors}

    @rule(process=processes, size=st.sampled_from((0, 15, 40)))
    def tell(self, process: bytes, size: int) -> None:
        said = Views((process, b"l" * size), (b"o",))
        self.state.whole(process, OWNER, "rack", BEAT, said, self.now)
        self.said[process], self.heard[process] = said, self.now

    @rule(process=processes)
    def live(self, process: bytes) -> None:
        assert self.state.hear(process, OWNER, BEAT, self.now) == (process in self.heard)
        if process in self.heard:
            self.heard[process] = self.now

    @rule(process=processes)
    def leave(self, process: bytes) -> None:
        self.state.bye(process, OWNER)
        self.heard.pop(process, None)

    @rule(seconds=st.floats(0.0, 5.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        silent = {process for process, at in self.heard.items() if self.now - at >= SILENCE}
        assert set(self.state.tick(self.now)) == silent
        for process in silent:
            del self.heard[process]

    @rule(reader=readers, max_bytes=st.integers(1, 60))
    def ask(self, reader: bytes, max_bytes: int) -> None:
        while True:
            news = self.state.news(self.cursors[reader], reader, "rack", max_bytes)
            assert news.cursor >= self.cursors[reader]
            self.cursors[reader] = news.cursor
            self.believed[reader] -= set(news.gone)
            self.believed[reader] |= {each for each in news.datagrams if len(each) == 16}
            if news.cursor == self.state.cursor:
                break
        assert self.believed[reader] == self.heard.keys()

    @precondition(lambda self: self.heard)
    @invariant()
    def the_size_is_that_of_what_is_known(self) -> None:
        assert self.state.size == sum(self.said[process].size for process in self.heard)
        assert len(self.state) == len(self.heard)


TestAnyOrder = AnyOrder.TestCase
