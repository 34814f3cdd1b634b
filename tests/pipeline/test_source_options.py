"""Options of the source pzc, as Spark hands them over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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


def test_a_query_has_a_spool_by_its_name_unless_it_names_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one, same, other = (read(name=name).spool for name in ("q", "q", "r"))
    assert one == same != other
    assert tmp_path in one.parents
    monkeypatch.chdir(tmp_path)
    assert read(spool="here").spool == tmp_path / "here"
