"""How targets and values are read off a command line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.console.targets import (
    UsageError,
    is_negative_literal,
    parse_arguments,
    parse_value,
    shield,
    split_member,
    split_topic,
)

identifiers = st.from_regex(r"[a-z_][a-z0-9_]{0,9}", fullmatch=True)
topics = st.text(min_size=1, max_size=20)
hosts = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
    st.from_regex(r"[a-z][a-z0-9-]{0,8}(\.[a-z0-9-]{1,8}){0,3}", fullmatch=True),
)
tcp_endpoints = st.builds("tcp://{}:{}".format, hosts, st.integers(1, 65535))
ipc_endpoints = st.from_regex(r"ipc:///[a-z0-9._/@-]{1,30}", fullmatch=True)


@given(st.one_of(tcp_endpoints, ipc_endpoints), identifiers)
def test_an_endpoint_and_a_member_are_told_apart(endpoint: str, member: str) -> None:
    assert split_member(f"{endpoint}.{member}") == (endpoint, member)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tcp://127.0.0.1:5555.voltage", ("tcp://127.0.0.1:5555", "voltage")),
        ("tcp://psu.lab.example:5555.voltage", ("tcp://psu.lab.example:5555", "voltage")),
        ("ipc:///tmp/a.sock.attr", ("ipc:///tmp/a.sock", "attr")),
        ("ipc:///tmp/v1.2/psu.attr", ("ipc:///tmp/v1.2/psu", "attr")),
        ("ipc://@abstract.attr", ("ipc://@abstract", "attr")),
    ],
)
def test_examples_of_members(text: str, expected: tuple[str, str]) -> None:
    assert split_member(text) == expected


def test_the_longest_known_name_wins() -> None:
    assert split_member("rack.psu.a.b", ["rack", "rack.psu", "psu"]) == ("rack.psu", "a.b")


@pytest.mark.parametrize(
    "text",
    ["", ".", "psu", "psu.", ".voltage", "tcp://127.0.0.1:5555", "tcp://127.0.0.1.voltage", "tcp://h:1.",
     "ipc:///tmp/psu", "ipc://.voltage", "inproc://psu.voltage", "http://psu:80.voltage", "://x.y"],
)  # fmt: skip
def test_what_names_no_member_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        split_member(text)


@pytest.mark.parametrize(("text", "told"), [("psu", r"psu/\*"), ("psu.v", "psu/v"), ("psu/", "psu/voltage")])
def test_what_names_no_topic_is_a_usage_error_that_shows_one(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        split_topic(text)


def test_a_topic_stands_behind_a_slash() -> None:
    assert split_topic("psu/ch1.voltage") == ("psu", "ch1.voltage")


@pytest.mark.parametrize(
    "text", ["tcp://h:1.a..b", "ipc:///tmp/v1.2/psu", "psu.ramp()", "psu.set tings", "psu", "psu.a[b]"]
)
def test_a_member_has_a_path(text: str) -> None:
    with pytest.raises(UsageError):
        split_member(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dac.ch1.unit", ("dac", "ch1.unit")),
        ("dac.channels[0].off", ("dac", "channels[0].off")),
        ("tcp://127.0.0.1:5555.channels['a.b'].off", ("tcp://127.0.0.1:5555", "channels['a.b'].off")),
        ("rack.psu.ch1.unit", ("rack.psu", "ch1.unit")),
    ],
)
def test_a_member_may_be_nested(text: str, expected: tuple[str, str]) -> None:
    assert split_member(text, ["rack.psu"]) == expected


def test_behind_a_socket_that_is_there_a_member_may_be_nested(tmp_path: Path) -> None:
    (tmp_path / "psu.sock").touch()
    endpoint = f"ipc://{tmp_path}/psu.sock"
    assert split_member(f"{endpoint}.ch1.unit") == (endpoint, "ch1.unit")


@pytest.mark.parametrize("text", ["127.0.0.1:5555.voltage", "psu-host:5555", "[::1]:5555.voltage"])
def test_an_address_without_its_scheme_is_told_with_it(text: str) -> None:
    with pytest.raises(UsageError, match=r"tcp://\S+:5555"):
        split_member(text)


@given(topics)
def test_no_text_breaks_the_splitting(text: str) -> None:
    try:
        target, member = split_member(text)
    except UsageError:
        return
    assert f"{target}.{member}" == text


literals = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=5,
)  # fmt: skip


@given(literals)
def test_a_python_literal_is_read_as_itself(value: object) -> None:
    assert parse_value(repr(value)) == value


@given(st.text())
def test_a_text_is_a_literal_or_itself(text: str) -> None:
    value = parse_value(text)
    assert value == text if isinstance(value, str) and value == text else not math.isnan(len(repr(value)))


@pytest.mark.parametrize(
    "text",
    ["on", "true", "VOLT 3", "1.2.3", "nan", "inf", "0777", "1 if", "{[]}", "\\d", "'", "\0", "\udc80", ""],
)
def test_what_is_no_literal_stays_text(text: str) -> None:
    assert parse_value(text) == text


def test_deep_nesting_stays_text() -> None:
    text = "(" * 10_000
    assert parse_value(text) == text


def test_arguments_become_positional_and_keyword() -> None:
    assert parse_arguments(["1", "a", "k=2", "[3]", "name=x=y"]) == ((1, "a", [3]), {"k": 2, "name": "x=y"})


def test_a_quoted_text_is_no_keyword() -> None:
    assert parse_arguments(["'VOLT=3'", "1=2"]) == (("VOLT=3", "1=2"), {})


def test_a_keyword_twice_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="k is given twice"):
        parse_arguments(["k=1", "k=2"])


@given(st.integers(max_value=-1) | st.floats(max_value=-1e-9, allow_infinity=False))
def test_a_shielded_negative_number_keeps_its_value(number: float) -> None:
    text = repr(number)
    assert is_negative_literal(text)
    assert parse_value(shield(text)) == number


@pytest.mark.parametrize("text", ["--json", "-x", "-", "--", "-inf", "5", "a -1"])
def test_what_is_no_negative_number_is_not_shielded(text: str) -> None:
    assert shield(text) == text
