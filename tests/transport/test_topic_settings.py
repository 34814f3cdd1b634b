"""Defaults of topics: what a settings file may say, who says more than it, and what it changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pzc import ConfigError, block, drop, latest, mailbox
from pzc.transport.settings import Settings, load
from pzc.transport.topic_settings import TopicSettings, policy_of

from tests.agents.in_parts import InParts
from tests.contract.rigs.pairs import wait_until


def _of(topic: str, **tables: Any) -> dict[str, Any]:
    return dict(TopicSettings(tables, "lab.toml").of(topic))


def _write(path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Make this the settings file of what follows."""
    file = path / "lab.toml"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("PZC_CONFIG", str(file))


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("drop", drop()),
        ("drop(5)", drop(5)),
        (" latest ( 3 ) ", latest(3)),
        ("latest(count=2)", latest(2)),
        ("block", block()),
        ("block(0.5, slots=8, on_timeout='drop')", block(0.5, 8, "drop")),
        ("mailbox(max_messages=10)", mailbox(10)),
    ],
)
def test_a_policy_is_written_as_in_python(text: str, policy: object) -> None:
    assert policy_of(text) == policy


@pytest.mark.parametrize(
    "text",
    ["", "drop(", "keep", "drop(x)", "drop(0)", "drop(1, 2)", "latest(n=3)", "__import__('os')", "drop()()",
     "a.drop()", "[].drop", "block(**{})", "(" * 500, 3, None, ["drop"]],
)  # fmt: skip
def test_what_is_no_policy_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"expected such as drop|at least 1"):
        policy_of(text)


def test_every_key_has_its_value() -> None:
    said = {
        "buffers": 8, "ack_wait": 1, "zero_copy": False, "throttle": 2.5, "scope": "host",
        "keep_last": True, "policy": "latest(2)", "transport": "unix",
    }  # fmt: skip
    assert _of("t", t=said) == {**said, "policy": latest(2)}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("buffers", 0, "whole number of 1 or more"),
        ("buffers", "8", "whole number"),
        ("buffers", True, "whole number"),
        ("ack_wait", -1, "0 seconds or more"),
        ("ack_wait", float("nan"), "0 seconds or more"),
        ("zero_copy", 1, "true or false"),
        ("throttle", 0, "more than 0 messages"),
        ("scope", "lan", "one of process, host, all"),
        ("keep_last", "yes", "true or false"),
        ("policy", "fifo", "such as drop"),
        ("transport", "udp", "one of auto, inproc, unix, tcp"),
        ("transport", ["tcp"], "one of"),
    ],
)
def test_a_value_that_cannot_be_used_is_told_with_its_place(key: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError, match=rf"^lab.toml: topics.camera.\*.{key} = .*{expected}"):
        TopicSettings({"camera.*": {key: value}}, "lab.toml")


@pytest.mark.parametrize("table", [3, [1], {"t": 3}])
def test_what_is_no_table_is_told(table: object) -> None:
    with pytest.raises(ConfigError, match=r"^lab.toml: topics.*expected"):
        TopicSettings(table, "lab.toml")


def test_of_several_patterns_the_later_one_wins_key_by_key() -> None:
    tables = {"*": {"buffers": 4, "scope": "host"}, "camera.*": {"buffers": 8}, "other": {"buffers": 1}}
    assert _of("camera.left", **tables) == {"buffers": 8, "scope": "host"}
    assert _of("x", **tables) == {"buffers": 4, "scope": "host"}


def test_an_unknown_key_is_complained_about() -> None:
    settings = Settings({}, {"topics": {"t": {"bufers": 3}}, "tropics": {}}, "lab.toml")
    found = settings.complaints()
    assert "lab.toml: topics.t.bufers is not known and has no effect: did you mean buffers?" in found
    assert any(line.startswith("lab.toml: tropics is not known") for line in found)


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text('[topics."a.*"]\nbuffers = 3\n', encoding="utf-8")
    settings = load({"PZC_CONFIG": str(file)})
    assert settings.topics.of("a.b") == {"buffers": 3}


def test_strangers_do_not_make_a_publisher_remember_topics_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, monkeypatch, "[topics.'*']\nbuffers = 2\n")
    with InParts() as publisher:
        routes = publisher.publishing.subscribers.routes
        for number in range(10_100):
            assert routes.about(f"t{number}").buffers == 2
        kept = [routes.about(f"t{number}") is routes.about(f"t{number}") for number in range(10_100)]
        assert kept.count(True) == 10_000


def test_agents_without_such_a_file_do_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "PZC_CONFIG" not in os.environ
    with InParts() as publisher:
        assert publisher.publishing.subscribers.routes.usual is None
        wait_until(lambda: publisher.publishing.subscribers.routes.about("t").buffers == 32)
