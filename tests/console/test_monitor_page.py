"""The parts of the page that need no browser: panels, access, what is told when."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc import Agent, LockedBy, Proxy, Refused, Server, close, lock, urgent
from pzc.agents.client.described import About
from pzc.console.monitor.collector import Collector
from pzc.console.monitor.feeds import Feeds
from pzc.console.monitor.live import Live
from pzc.console.monitor.state import LabState
from pzc.console.monitor.watched import Told
from pzc.console.monitor.web.access import MOST_SESSIONS, VIEWER, Access, User
from pzc.console.monitor.web.acting import MOST_READ, PER_AGENT, Acting, Operator
from pzc.console.monitor.web.page import MOST_OPEN, Page
from pzc.console.monitor.web.panel import arguments_of, panel_of, readable


def test_arguments_are_read_from_a_signature() -> None:
    found = arguments_of("(mode: typing.Literal['a', 'b'], level: int = 2, *rest, loud=False) -> float")
    assert found is not None
    assert [(each.name, each.type, each.default, each.choices) for each in found] == [
        ("mode", "typing.Literal['a', 'b']", None, ("'a'", "'b'")), ("level", "int", "2", ()),
        ("*rest", "", None, ()), ("loud", "", "False", ()),
    ]  # fmt: skip


@given(st.text())
def test_any_text_may_stand_for_a_signature(text: str) -> None:
    arguments_of(text)
    arguments_of(f"({text})")


def test_urgent_members_stand_first_and_private_ones_nowhere() -> None:
    members = {
        "a": {"kind": "value"}, "off": {"kind": "method", "signature": "()", "urgent": True},
        "_x": {"kind": "value"}, "ch1": {"kind": "reference"},
    }  # fmt: skip
    panel = panel_of(About("Supply", members=members), ())
    assert [(each["name"], each["kind"]) for each in panel["controls"]] == [
        ("off", "method"), ("a", "value"), ("ch1", "folder"),
    ]  # fmt: skip


def test_a_nested_panel_names_members_by_their_whole_path() -> None:
    panel = panel_of(About(members={"level": {"kind": "property", "doc": "In volts, 0..3."}}), ("ch1",))
    (level,) = panel["controls"]
    assert (level["path"], level["unit"], level["range"]) == ("ch1.level", "V", [0, 3])


@pytest.fixture
def access() -> Access:
    return Access({"t" * 20: User("alice", True)}, None, ["127.0.0.1:8470"], secure=False)


def test_a_token_opens_a_session_that_ends(access: Access) -> None:
    session = access.begin("t" * 20)
    assert session
    assert access.user(session) == User("alice", True)
    access.end(session)
    assert access.user(session) is None


def test_no_other_token_opens_one(access: Access) -> None:
    assert access.begin("t" * 19) is None
    assert (access.user(""), access.user("made up")) == (None, None)


def test_the_oldest_session_ends_when_there_are_many(access: Access) -> None:
    sessions = [str(access.begin("t" * 20)) for _ in range(MOST_SESSIONS + 1)]
    assert access.user(sessions[0]) is None
    assert access.user(sessions[1]) == User("alice", True)


def test_the_sessions_of_one_user_end_none_of_another() -> None:
    users = {"t" * 20: User("alice", True), "u" * 20: User("bob")}
    access = Access(users, None, [], secure=False)
    kept = str(access.begin("t" * 20))
    for _ in range(MOST_SESSIONS + 1):
        access.begin("u" * 20)
    assert access.user(kept) == User("alice", True)


def test_anybody_looks_where_it_is_open_but_not_with_a_session_that_ended() -> None:
    access = Access({}, User(VIEWER), [], secure=False)
    assert access.user("") == User(VIEWER)


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("http://127.0.0.1:8470", "127.0.0.1:8470", True), ("https://127.0.0.1:8470", "127.0.0.1:8470", False),
        ("http://127.0.0.1:8471", "127.0.0.1:8470", False), ("", "127.0.0.1:8470", False), ("null", "", False),
    ],
)  # fmt: skip
def test_only_its_own_origin_is_the_page(access: Access, origin: str, host: str, own: bool) -> None:
    assert access.is_own(origin, host) is own


def lab() -> LabState:
    state = LabState()
    state.come("psu", 0.0)
    state.hear("psu", Told({"epoch": 1, "type": "Supply"}, {"topics": {"v": {"published": 1}}}), 0.0)
    return state


def test_a_page_is_told_what_is_new_and_nothing_twice() -> None:
    page, state = Page(), lab()
    assert page.news(state, {}, 10.0)["rows"]["psu"]["state"] == "well"
    assert set(page.news(state, {}, 12.0)) == {"now"}
    state.fail("psu", "frozen", 13.0)
    state.clean(13.0)
    news = page.news(state, {}, 14.0)
    assert news["rows"]["psu"]["state"] == "silent"
    assert news["troubles"][0]["agent"] == "psu"
    assert news["log"][0]["words"].startswith("does not answer")


def test_an_agent_that_is_forgotten_is_taken_from_the_page() -> None:
    page, state = Page(), lab()
    page.news(state, {}, 10.0)
    state.leave("psu", 11.0)
    state.clean(1000.0)
    assert page.news(state, {}, 1000.0)["rows"] == {"psu": None}


def test_values_are_told_of_open_panels_only_and_each_point_once() -> None:
    page, state = Page(), lab()
    state.take("psu", "v", 1.5, 1.0)
    assert "values" not in page.news(state, {}, 1.0)
    page.ask({"open": ["psu"]})
    assert page.news(state, {}, 1.1)["values"]["psu"]["v"]["points"] == [(1.0, 1.5)]
    assert "values" not in page.news(state, {}, 1.2)


def test_what_a_topic_says_of_a_member_counts_before_what_was_read() -> None:
    page, state, read = Page(), lab(), Live()
    page.ask({"open": ["psu"]})
    state.take("psu", "v", 2.0, 1.0)
    read.take(1.0, 1.0)
    assert page.news(state, {("psu", "v"): read}, 1.1)["values"]["psu"]["v"]["number"] == 2.0


def test_a_page_may_ask_for_anything_and_gets_few_panels() -> None:
    page = Page()
    for message in (
        {"open": 3},
        {"open": [None, {}, "\x00"]},
        {},
        {"open": [str(each) for each in range(99)]},
    ):
        page.ask(message)
    assert len(page.open) == MOST_OPEN


class Supply:
    """A supply."""

    voltage = 0.0

    @urgent
    def off(self) -> None:
        """Switch it off."""


@pytest.fixture
def psu() -> Iterator[str]:
    with Server(Supply()) as server:
        yield server.rep_endpoint


@pytest.fixture
def hung() -> Iterator[str]:
    """Where connections are taken and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def acting() -> Iterator[Acting]:
    acting = Acting(Operator(None), {"alice": Operator(None, 1.0)}, lambda _: False)
    yield acting
    acting.close()
    for thread in threading.enumerate():
        if thread.name.startswith("pzc-page"):
            thread.join()


def set_voltage(endpoint: str) -> None:
    proxy: Any = Proxy(endpoint)
    try:
        proxy.voltage = 1.0
    finally:
        close(proxy)


def test_a_lock_that_is_granted_after_its_page_was_closed_is_given_back(psu: str) -> None:
    operator = Operator(None)
    operator.want(psu, "session")
    operator.leave("session")
    with pytest.raises(Refused, match="the page was closed"):
        operator.take(psu, "session", "")
    set_voltage(psu)


def test_a_lock_that_is_being_taken_is_not_taken_a_second_time(psu: str) -> None:
    operator = Operator(None)
    operator.want(psu, "session")
    with pytest.raises(Refused, match="already"):
        operator.want(psu, "session")
    operator.take(psu, "session", "")
    operator.want(psu, "session")
    operator.take(psu, "session", "")
    with pytest.raises(LockedBy):
        set_voltage(psu)
    operator.close()
    set_voltage(psu)


def test_a_lock_that_cannot_be_given_back_keeps_no_other(acting: Acting, psu: str) -> None:
    with Server(Supply()) as ended:
        for name, endpoint in (("ended", ended.rep_endpoint), ("psu", psu)):
            acting.submit("alice", "session", name, endpoint, {"do": "lock"}).result(20.0)
    acting.leave("session")
    proxy = Proxy(psu)
    with lock(proxy, wait=20.0):
        pass
    close(proxy)


def test_urgent_calls_at_an_agent_that_hangs_keep_none_from_another(
    acting: Acting, psu: str, hung: str
) -> None:
    off = {"do": "call", "path": "off", "urgent": True}
    waiting = [acting.submit("alice", "session", "hung", hung, off) for _ in range(PER_AGENT)]
    with pytest.raises(Refused, match=f"{PER_AGENT} urgent calls of alice run at hung"):
        acting.submit("alice", "session", "hung", hung, off)
    assert acting.submit("alice", "session", "psu", psu, off).result(20.0)["text"] == "None"
    assert all(each.exception(20.0) is not None for each in waiting)


class Waiting:
    """Waits until it is let go on."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def wait(self) -> bool:
        """Wait."""
        return self.go.wait(20.0)


def test_what_one_user_waits_for_keeps_no_other_user_and_can_be_called_off(psu: str) -> None:
    acting = Acting(Operator(None), {name: Operator(None) for name in ("alice", "bob")}, lambda _: False)
    call, instruments = {"do": "call", "path": "wait"}, [Waiting() for _ in range(4)]
    with ExitStack() as stack:
        stack.callback(acting.close)
        for each in instruments:
            stack.callback(each.go.set)
        servers = [stack.enter_context(Server(each)) for each in instruments]
        waiting = [
            acting.submit("alice", "a", str(at), server.rep_endpoint, call)
            for at, server in enumerate(servers) for _ in range(PER_AGENT)
        ]  # fmt: skip
        with pytest.raises(Refused, match=f"{PER_AGENT} calls of alice run at 0"):
            acting.submit("alice", "a", "0", servers[0].rep_endpoint, call)
        set_one = {"do": "set", "path": "voltage", "value": "1"}
        acting.submit("bob", "b", "psu", psu, set_one).result(15.0)
        assert not any(each.done() for each in waiting)
        for verb in ({"do": "cancel", "id": "none"}, {"do": "unlock"}):
            acting.submit("alice", "a", "0", servers[0].rep_endpoint, verb).result(15.0)
        also = acting.submit("bob", "b", "0", servers[0].rep_endpoint, call)
        for each in instruments:
            each.go.set()
        assert all(each.result(15.0)["value"] for each in (*waiting, also))


def test_nothing_is_connected_by_what_still_runs_when_the_page_ends(psu: str) -> None:
    operator = Operator(None)
    operator.close()
    with pytest.raises(Refused, match="is being ended"):
        operator.proxy(psu)


class Wide:
    """More values than are read at a time."""

    def __init__(self) -> None:
        for number in range(MOST_READ + 10):
            setattr(self, f"value{number:03}", number)


@pytest.fixture
def wide() -> Iterator[str]:
    with Server(Wide()) as server:
        yield server.rep_endpoint


def test_more_members_than_are_read_at_a_time_are_read_in_turn(wide: str, acting: Acting) -> None:
    panel = acting.panel("wide", wide, "")
    expected, tick = {("wide", path) for path in readable(panel)}, threading.Event()
    for _ in range(1000):
        acting.read({"wide": wide})
        if acting.reads().keys() == expected:
            break
        tick.wait(0.02)
    assert len(expected) == MOST_READ + 10
    assert acting.reads().keys() == expected


def test_what_fails_in_one_round_does_not_end_the_rounds() -> None:
    third, rounds = threading.Event(), list[int]()

    def fail() -> None:
        rounds.append(1)
        if len(rounds) < 3:
            raise OSError("no such log")
        third.set()

    with Agent() as agent:
        collector = Collector(agent, ["tcp://127.0.0.1:9"], 0.1, 0.1)
        collector.after.append(fail)
        collector.begin()
        try:
            assert third.wait(20.0)
            with collector.state() as state:
                told = [line for line in state.lines if "no such log" in line.words]
            assert [line.words for line in told] == ["not all could be looked at: OSError: no such log"]
            assert told[0].at <= time.monotonic()
        finally:
            collector.close()


def test_a_topic_that_is_followed_no_more_has_no_newest_value() -> None:
    tick = threading.Event()
    with Agent() as source, Agent() as agent:
        collector = Collector(agent, ["source"])
        feeds = Feeds(collector)
        for rate, there in ((1.0, True), (100.0, False)):
            topics = {"v": {"published": 1, "rate_hz": rate}}
            with collector.state() as state:
                state.come("source", 0.0)
                state.hear("source", Told({"endpoint": source.rep_endpoint}, {"topics": topics}), 0.0)
            feeds.follow()
            found = not there
            for _ in range(1000):
                source.publish("v", 1.5)
                with collector.state() as state:
                    found = ("source", "v") in state.lives
                if found == there:
                    break
                tick.wait(0.02)
            assert found == there
        feeds.close()
        collector.close()
