"""Options of the source pzc, as Spark hands them over, and the offsets in its checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.pipeline.source.offsets import Line, Offset, Span, read_offset
from pzc.pipeline.source.options import SECRETS, Target, read_options
from pzc.protocol.errors import ConfigError

NUMBERS = (
    "maxRowsPerBatch", "rowsPerPartition", "mailboxMessages", "mailboxBytes", "keep", "timeout", "wait",
)  # fmt: skip


def read(**given: str) -> Any:
    return read_options({"agents": "psu", "name": "q", **given}, streaming=True)


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        ("psu", [("psu", "*")]),
        ("psu, cam*", [("psu", "*"), ("cam*", "*")]),
        ("psu/voltage,psu/current", [("psu", "voltage"), ("psu", "current")]),
        ("psu,psu", [("psu", "*")]),
        ("tcp://10.0.0.7:5000", [("tcp://10.0.0.7:5000", "*")]),
        ("tcp://10.0.0.7:5000/voltage", [("tcp://10.0.0.7:5000", "voltage")]),
        ("tcp://[::1]:5000/a/b", [("tcp://[::1]:5000", "a/b")]),
        ("ipc:///run/psu", [("ipc:///run/psu", "*")]),
    ],
)
def test_agents_are_names_patterns_and_endpoints_with_a_topic_if_wanted(agents: str, expected) -> None:
    assert read(agents=agents).targets == tuple(Target(*each) for each in expected)


def test_topics_hold_for_the_agents_that_name_none() -> None:
    found = read(agents="psu,cam/image", topics="voltage,current").targets
    assert found == (Target("psu", "voltage"), Target("psu", "current"), Target("cam", "image"))


@pytest.mark.parametrize("agents", ["", " , ", "psu/", "psu:voltage", "tcp://10.0.0.7", "tcp://:x"])
def test_agents_that_are_none_are_refused(agents: str) -> None:
    with pytest.raises(ConfigError, match="agents"):
        read(agents=agents)


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_secret_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(ConfigError, match="keyFile") as refusal:
        read(**{name: "hunter2"})
    assert "hunter2" not in str(refusal.value)


def test_an_unknown_option_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError, match="maxRowsPerBatch"):
        read(maxRowPerBatch="5")


@pytest.mark.parametrize("option", NUMBERS)
@pytest.mark.parametrize("value", ["-1", "many", "nan", ""])
def test_a_number_that_cannot_be_is_refused_by_name(option: str, value: str) -> None:
    with pytest.raises(ConfigError, match=option):
        read(**{option: value})


@pytest.mark.parametrize("option", ["whenFull", "onMissing", "decode"])
def test_a_choice_that_is_none_is_refused_by_name(option: str) -> None:
    with pytest.raises(ConfigError, match=option):
        read(**{option: "perhaps"})


def test_a_streaming_query_needs_a_name_and_a_batch_query_none() -> None:
    with pytest.raises(ConfigError, match="name"):
        read_options({"agents": "psu"}, streaming=True)
    assert read_options({"agents": "psu"}, streaming=False).name is None


def test_one_checkpoint_gives_one_name_and_another_one_another() -> None:
    names = [
        read_options({"agents": "psu", "checkpointLocation": place}, streaming=True).name
        for place in ("/a", "/a", "/b")
    ]
    assert names[0] == names[1] != names[2]


def test_the_mailbox_is_as_the_options_say() -> None:
    policy = read(mailboxMessages="7", mailboxBytes="800", whenFull="block", keep="60").policy
    assert (policy.bound, policy.max_bytes, policy.when_full, policy.keep) == (7, 800, "block", 60.0)
    assert policy.durable == "q"


def test_keys_come_from_the_named_file_and_not_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PZC_KEY", "another key of a lab")
    (tmp_path / "key").write_text("a key of the lab")
    (tmp_path / "key").chmod(0o600)
    ring = read(keyFile=str(tmp_path / "key")).protocol().codec.keyring
    assert ring is not None
    assert ring.active.secret == b"a key of the lab"


# --- offsets ----------------------------------------------------------------------------------------

lines = st.builds(Line, st.text(max_size=5), st.integers(0, 2**32), st.text(max_size=5))
offsets = st.builds(Offset, st.just("q"), st.dictionaries(lines, st.integers(0, 2**53)))


@given(offsets)
def test_an_offset_comes_back_out_of_json(offset: Offset) -> None:
    assert read_offset(json.loads(json.dumps(offset.to_json())), "q") == offset


@given(offsets)
def test_equal_offsets_give_equal_text(offset: Offset) -> None:
    other = Offset("q", dict(reversed(list(offset.at.items()))))
    assert json.dumps(other.to_json()) == json.dumps(offset.to_json())


def test_what_lies_between_two_offsets_is_told_by_line() -> None:
    a, b, c = (Line("p", 1, topic) for topic in "abc")
    start, end = Offset("q", {a: 3, b: 5}), Offset("q", {a: 7, b: 5, c: 2})
    assert start.until(end) == [Span(a, 3, 7), Span(c, 0, 2)]


@pytest.mark.parametrize(
    "given",
    [{}, {"mailbox": "q"}, {"mailbox": "q", "publishers": {"p": {"t": 1}}}, {"mailbox": "q", "publishers": []},
     {"mailbox": "q", "publishers": {"p/1": {"t": "1"}}}, {"mailbox": "q", "publishers": {"p/1": {"t": -1}}}],
)  # fmt: skip
def test_what_is_no_offset_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no offset"):
        read_offset(given, "q")


def test_an_offset_of_another_mailbox_is_refused() -> None:
    with pytest.raises(ConfigError, match="'other'"):
        read_offset(Offset("other").to_json(), "q")
