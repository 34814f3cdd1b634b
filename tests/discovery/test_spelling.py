"""How topics are written: publisher, slash, topic."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.discovery.spelling import split_topic
from pzc.protocol.errors import ConfigError

topics = st.text(min_size=1, max_size=20)
words = st.from_regex(r"[a-z_][a-z0-9_.]{0,9}", fullmatch=True)


@given(st.sampled_from(["tcp://10.0.0.7:5555", "tcp://[::1]:5555", "tcp://psu.lab.example:1"]), topics)
def test_behind_a_port_a_topic_may_hold_anything(endpoint: str, topic: str) -> None:
    assert split_topic(f"{endpoint}/{topic}") == (endpoint, topic)


@given(st.lists(words, min_size=1, max_size=3).map("/".join), topics)
def test_behind_a_known_name_a_topic_may_hold_anything(name: str, topic: str) -> None:
    assert split_topic(f"{name}/{topic}", [name, name[:1]]) == (name, topic)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("psu/voltage", ("psu", "voltage")),
        ("rack.psu/ch1.voltage", ("rack.psu", "ch1.voltage")),
        ("psu/pzc/calls", ("psu", "pzc/calls")),
        ("cam*/image", ("cam*", "image")),
        ("psu/*", ("psu", "*")),
        ("/psu", ("/psu", "")),
        ("/psu/voltage", ("/psu", "voltage")),
        ("/lab/psu/voltage", ("/lab/psu", "voltage")),
        ("@sim@/psu", ("@sim@/psu", "")),
        ("@sim@/lab/psu/voltage", ("@sim@/lab/psu", "voltage")),
        ("/lab/**", ("/lab/**", "")),
        ("**", ("**", "")),
        ("psu", ("psu", "")),
        ("psu::a/voltage", ("psu::a", "voltage")),
        ("tcp://10.0.0.7:5555", ("tcp://10.0.0.7:5555", "")),
        ("ipc:///run/nobody/psu", ("ipc:///run/nobody/psu", "")),
        ("ipc://@psu/voltage", ("ipc://@psu", "voltage")),
        ("ipc://@psu", ("ipc://@psu", "")),
    ],
)
def test_examples_of_topics(text: str, expected: tuple[str, str]) -> None:
    assert split_topic(text) == expected


def test_behind_a_socket_that_is_there_a_topic_may_hold_anything(tmp_path: Path) -> None:
    (tmp_path / "psu.sock").touch()
    assert split_topic(f"ipc://{tmp_path}/psu.sock/a/b") == (f"ipc://{tmp_path}/psu.sock", "a/b")


@pytest.mark.parametrize(
    "text", ["", "/", "psu/", "tcp://host", "tcp://10.0.0.7:1/", "tcp://h:1.v", "udp://h:1", "ipc://"]
)
def test_what_names_no_publisher_or_an_empty_topic_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        split_topic(text)


@pytest.mark.parametrize(
    ("text", "told"), [("psu:voltage", "psu/voltage"), ("127.0.0.1:5555/v", "tcp://127.0.0.1:5555/v")]
)
def test_a_near_miss_is_told_as_it_is_right(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        split_topic(text)


@given(topics)
def test_nothing_is_lost_in_splitting(text: str) -> None:
    try:
        publisher, topic = split_topic(text)
    except ConfigError:
        return
    assert text == (f"{publisher}/{topic}" if topic else publisher)
