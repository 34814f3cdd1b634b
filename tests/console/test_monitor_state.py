"""The state of a lab: what is told of agents, and what is called trouble; no socket, clock or screen."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.console.monitor.collector import leave_out
from pzc.console.monitor.lines import state_of
from pzc.console.monitor.live import HISTORY, Live, image_of, range_of, unit_of
from pzc.console.monitor.metrics import Metrics
from pzc.console.monitor.state import MOST_AGENTS, MOST_LINES, LabState
from pzc.console.monitor.watched import Told
from pzc.console.values import to_json
from pzc.protocol.errors import RemoteError


def told(
    *, epoch: int = 1, running: list[dict[str, Any]] | None = None, topics: dict[str, Any] | None = None,
    lock: dict[str, Any] | None = None, pending: int = 0, **counts: int,
) -> Told:  # fmt: skip
    about = {"agent_id": "a1", "epoch": epoch, "name": "psu", "type": "Supply", "endpoint": "tcp://h:1"}
    statistics = {
        "counts": counts, "calls": {"running": len(running or ()), "waiting": 0, "lock": lock},
        "topics": topics or {}, "subscriptions": [{"pending": pending}],
    }  # fmt: skip
    return Told(about, statistics, tuple(running or ()))


def lab() -> LabState:
    state = LabState()
    state.come("psu", 0.0, {"type": "Supply"})
    return state


def words(state: LabState, now: float) -> list[str]:
    return [f"{each.level} {each.agent} {each.words}" for each in state.troubles(now)]


def test_an_agent_that_answers_is_no_trouble() -> None:
    state = lab()
    state.hear("psu", told(), 1.0)
    assert words(state, 1.5) == []
    (agent,) = state.tell(1.5)["agents"]
    assert (agent["state"], agent["does"], agent["heard_s"]) == ("well", "idle", 0.5)


def test_an_agent_that_does_not_answer_is_told_with_the_reason_and_when_it_was_heard() -> None:
    state = lab()
    state.hear("psu", told(), 1.0)
    state.fail("psu", "CallTimeout: nothing came", 4.0)
    assert words(state, 13.0) == ["bad psu does not answer, last heard 12 s ago: CallTimeout: nothing came"]


def test_what_is_bad_stands_before_what_is_late() -> None:
    state = lab()
    state.come("dmm", 0.0)
    call = {"member": "ramp", "caller": "alice", "state": "running", "since": 90.0}
    state.hear("psu", told(running=[call]), 1.0)
    state.fail("dmm", "gone", 1.0)
    assert [each.agent for each in state.troubles(2.0)] == ["dmm", "psu"]
    assert words(state, 2.0)[1] == "warn psu ramp has run for 2 min, for alice"


def test_an_agent_that_answers_is_marked_when_it_is_in_trouble() -> None:
    state = lab()
    state.hear("psu", told(), 1.0)
    assert [agent["trouble"] for agent in state.tell(1.0)["agents"]] == [""]
    state.take("psu", "voltage", RemoteError("builtins.OSError", "no route"), 1.0)
    (agent,) = state.tell(2.0)["agents"]
    assert (agent["state"], agent["trouble"], state_of(agent)) == ("well", "bad", "trouble")


def test_a_server_whose_name_left_is_told_and_forgotten_after_ten_minutes() -> None:
    state = lab()
    state.leave("psu", 10.0)
    assert words(state, 12.0) == ["bad psu is gone for 2 s"]
    state.clean(611.0)
    assert state.agents == {}


def test_a_server_of_several_objects_whose_name_left_is_told() -> None:
    state = LabState()
    state.come("rack", 0.0, {"type": "", "serves": True})
    state.leave("rack", 10.0)
    assert words(state, 12.0) == ["bad rack is gone for 2 s"]


def test_an_agent_that_serves_nothing_is_forgotten_when_its_name_leaves() -> None:
    state = LabState()
    state.come("script", 0.0)
    state.leave("script", 1.0)
    assert state.agents == {}


@pytest.mark.parametrize(
    ("silence", "expected"),
    [(3.0, []), (12.0, ["warn psu voltage is silent for 12 s, and came every 1.0 s"])],
)
def test_a_topic_that_came_regularly_and_stopped_is_told(silence: float, expected: list[str]) -> None:
    state = lab()
    for second in range(20):
        state.hear("psu", told(topics={"voltage": {"published": second + 1}}), float(second))
    assert words(state, 19.0 + silence) == expected


def test_refused_messages_are_told_by_reason_until_a_minute_later() -> None:
    state = lab()
    state.hear("psu", told(refused_SignatureError=2), 0.0)
    state.hear("psu", told(refused_SignatureError=5), 10.0)
    assert words(state, 10.0) == ["warn psu 3 messages refused in the last minute: SignatureError"]
    for second in range(11, 75):
        state.hear("psu", told(refused_SignatureError=5), float(second))
    assert words(state, 75.0) == []


def test_the_total_of_refused_messages_is_kept_apart_from_what_is_recent() -> None:
    state = lab()
    state.hear("psu", told(refused_SignatureError=2), 0.0)
    state.hear("psu", told(refused_SignatureError=5), 10.0)
    assert state.agents["psu"].refused["SignatureError"].total == 5


def test_a_restart_begins_anew_and_stands_in_the_log() -> None:
    state = lab()
    state.hear("psu", told(refused_SignatureError=0), 0.0)
    state.hear("psu", told(epoch=2, refused_SignatureError=7), 1.0)
    assert words(state, 1.0) == []
    assert [line.words for line in state.lines] == ["was restarted"]


def test_a_reader_that_is_far_behind_is_told() -> None:
    state = lab()
    state.hear("psu", told(pending=5000), 0.0)
    assert words(state, 0.0) == ["warn psu is 5000 notifications behind"]


def test_a_member_that_cannot_be_read_is_told_until_it_can() -> None:
    state = lab()
    state.hear("psu", told(), 0.0)
    state.take("psu", "voltage", RemoteError("OSError", "no route"), 1.0)
    (trouble,) = words(state, 4.0)
    assert trouble.startswith("bad psu voltage cannot be read for 3 s: ")
    assert "no route" in trouble
    state.take("psu", "voltage", 1.5, 5.0)
    assert words(state, 6.0) == []


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_topic_that_is_there_no_more_leaves_no_value_and_no_trouble(epoch: int) -> None:
    state, ends = lab(), {"voltage": {"published": 1}, "current": {"published": 1}}
    state.hear("psu", told(topics=ends), 0.0)
    state.take("psu", "voltage", RemoteError("OSError", "no route"), 1.0)
    state.take("psu", "current", 2.0, 1.0)
    state.hear("psu", told(epoch=epoch, topics={"current": {"published": 1}}), 2.0)
    assert words(state, 2.0) == []
    assert list(state.lives) == [("psu", "current")]


def test_the_log_tells_when_trouble_begins_and_ends_and_who_has_the_lock() -> None:
    state = lab()
    state.fail("psu", "frozen", 1.0)
    state.clean(1.0)
    state.hear("psu", told(lock={"owner": "alice", "reason": "fit"}), 2.0)
    state.clean(2.0)
    assert [line.words for line in state.lines] == [
        "does not answer: frozen", "lock: alice (fit)", "over: does not answer: frozen",
    ]  # fmt: skip


def test_a_process_that_does_not_run_and_a_pipeline_that_is_late_are_told() -> None:
    state = LabState()
    state.processes = [
        {"name": "dmm", "kind": "server", "state": "waiting", "does": "again in 1 s: OSError", "since": 1.0},
        {"name": "pipeline", "kind": "pipeline", "state": "running", "lag": 300.0},
    ]  # fmt: skip
    assert words(state, 0.0) == [
        "bad dmm does not run: again in 1 s: OSError", "warn pipeline the tables are 5 min behind",
    ]  # fmt: skip


def test_everything_is_bounded() -> None:
    state = LabState()
    for each in range(MOST_AGENTS + 5):
        state.come(f"agent{each}", 0.0)
    for _ in range(MOST_LINES + 5):
        state.note(0.0, "note", "agent1", "something")
    for _ in range(HISTORY + 5):
        state.take("agent1", "x", 1.0, 0.0)
    assert (len(state.agents), state.left_out, len(state.lines)) == (MOST_AGENTS, 5, MOST_LINES)
    assert len(state.lives["agent1", "x"].points) == HISTORY


def test_gaps_that_readers_saw_stand_at_the_topic() -> None:
    state = lab()
    state.hear("psu", told(topics={"voltage": {"published": 1}}), 0.0)
    state.come("reader", 0.0)
    seen = {"subscriptions": [{"publisher": "a1", "topic": "voltage", "gaps": 2}]}
    state.hear("reader", Told({"agent_id": "r"}, seen), 0.0)
    psu = next(each for each in state.tell(0.0)["agents"] if each["agent"] == "psu")
    assert psu["topics"]["voltage"]["gaps"] == 2


def test_topics_and_counts_whose_names_are_no_texts_are_left_out() -> None:
    state, odd = lab(), {7: {"published": 1}, b"x": {"published": 1}, "voltage": {"published": 1}}
    state.hear("psu", Told({"epoch": 1}, {"topics": odd, "counts": {7: 1, "refused_role": 2}}), 0.0)
    watched = state.agents["psu"]
    assert (list(watched.topics), list(watched.refused)) == (["voltage"], ["role"])


answers = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8) | st.integers() | st.binary(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = ("counts", "calls", "topics", "subscriptions", "links")


@given(
    st.dictionaries(st.sampled_from(KEYS), answers), st.lists(st.dictionaries(st.text(), answers), max_size=3)
)
def test_whatever_an_agent_answers_can_be_told_as_json(
    statistics: dict[str, Any], running: list[Any]
) -> None:
    state = lab()
    state.hear("psu", Told({"epoch": 1}, statistics, tuple(running)), 0.0)
    json.dumps(to_json(state.tell(1.0)), allow_nan=False)


@pytest.mark.parametrize(
    ("doc", "unit"),
    [
        ("Programmed voltage in volts.", "V"),
        ("Current [mA]", "mA"),
        ("Rate (Hz)", "Hz"),
        ("A supply.", ""),
        ("Temperature in °C.", "°C"),
    ],
)
def test_units_are_read_from_documentation(doc: str, unit: str) -> None:
    assert unit_of(doc) == unit


@pytest.mark.parametrize(
    ("doc", "bounds"),
    [
        ("Volts, 0..30", (0, 30)), ("from -1.5 to 2", (-1.5, 2)), ("none", None), ("Volts in [0, 30]", (0, 30)),
        ("Seconds, 1e-3..1", (1e-3, 1)), ("Gain: 1, 10 or 100.", None), (f"0..{'9' * 400}", None),
    ],
)  # fmt: skip
def test_ranges_are_read_from_documentation(doc: str, bounds: tuple[float, float] | None) -> None:
    assert range_of(doc) == bounds


def test_a_two_dimensional_array_becomes_a_small_grey_image() -> None:
    image = image_of(np.full((300, 200), np.nan))
    assert image is not None
    assert (image["width"], image["height"], image["shape"]) == (67, 100, [300, 200])
    assert image_of(np.zeros(3)) is None


def test_only_points_that_are_new_are_told() -> None:
    live = Live()
    for value in (1.0, 2.0, 3.0):
        live.take(value, value)
    assert live.tell(3.0, since=1)["points"] == [(2.0, 2.0), (3.0, 3.0)]
    assert "points" not in live.tell(3.0, since=3)


def test_an_array_is_not_kept_but_its_picture_is() -> None:
    live, frame = Live(), np.arange(6.0).reshape(2, 3)
    held = sys.getrefcount(frame)
    live.take((frame,), 0.0)
    assert sys.getrefcount(frame) == held
    assert (live.tell(0.0)["image"]["width"], live.tell(0.0)["text"]) == (
        3,
        "<float64 (2, 3): [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]>",
    )


def test_what_was_dropped_for_the_monitor_itself_is_left_out() -> None:
    topics = {"v": {"dropped": 7}, "w": {"dropped": 1}}
    links = [
        {"link": "ours", "topics": {"v": {"dropped": 4}}},
        {"link": "other", "topics": {"v": {"dropped": 3}}},
    ]
    statistics: dict[str, Any] = {"topics": topics, "links": {"links": links}}
    leave_out(statistics, {"ours"})
    assert statistics["topics"] == {"v": {"dropped": 3}, "w": {"dropped": 1}}


@pytest.mark.parametrize("newest", [float("nan"), float("inf"), "off", RemoteError("OSError", "no route")])
def test_a_value_that_is_no_number_any_more_is_no_metric(newest: object) -> None:
    state = lab()
    for value in (21.5, newest):
        state.take("psu", "temperature", value, 1.0)
    (values,) = [each for each in Metrics(lambda: nullcontext(state)).collect() if each.name == "pzc_value"]
    assert values.samples == []


@pytest.mark.parametrize("content", [[1.0, 2.0], (1.0, "x"), 12345678901234567890])
def test_a_value_that_is_more_than_a_number_is_told_as_text(content: object) -> None:
    live = Live()
    live.take(content, 0.0)
    told = live.tell(0.0)
    assert (told["number"], told["text"]) == (None, repr(content))
    assert len(told["points"]) == 1
