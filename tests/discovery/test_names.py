from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.discovery.names import (
    MAX_NAME,
    Pattern,
    Remapping,
    Target,
    absolute,
    candidates,
    check_name,
    check_partition,
    split_full,
)
from pzc.protocol.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "namespace", "root"),
    [
        ("status", "", "/status"),
        ("status", "robot1", "/robot1/status"),
        ("/status", "robot1", "/robot1/status"),
        ("status", "/robot1/", "/robot1/status"),
        ("arm/status", "lab/robot1", "/lab/robot1/arm/status"),
        ("Größe", "", "/Größe"),
    ],
)
def test_a_name_is_placed_in_its_namespace(name: str, namespace: str, root: str) -> None:
    assert absolute(name, namespace) == root


def test_in_gz_style_a_slash_in_front_leaves_the_namespace() -> None:
    assert absolute("/status", "robot1", style="gz") == "/status"
    assert absolute("status", "robot1", style="gz") == "/robot1/status"


@pytest.mark.parametrize("name", ["~/status", "~status"])
def test_a_private_name_belongs_to_its_agent(name: str) -> None:
    assert absolute(name, "robot1", agent="psu") == "/robot1/psu/status"


def test_a_private_name_needs_an_agent_with_a_name() -> None:
    with pytest.raises(ConfigError, match="the agent has no name"):
        absolute("~/status", "robot1")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "a part is empty"),
        ("/", "a part is empty"),
        ("a//b", "a part is empty"),
        ("a/", "a part is empty"),
        ("//a", "a part is empty"),
        ("my psu", "' '"),
        ("psu\n", r"'\\n'"),
        ("psu\x07", "cannot be printed"),
        ("psu\u202e", "cannot be printed"),
        ("a@b", "'@'"),
        ("a*", r"'\*'"),
        ("a~b", "'~'"),
        ("a:=b", "':='"),
        ("a" * (MAX_NAME + 1), "too long"),
        ("ä" * (MAX_NAME // 2 + 1), "too long"),
        ("\ud800", "cannot be printed"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_told_what_is_allowed(name: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=rf"{fault}; a name is at most 255 bytes"):
        check_name(name)


def test_a_name_and_its_namespace_together_are_not_too_long() -> None:
    with pytest.raises(ConfigError, match="too long"):
        absolute("a" * 200, "b" * 100)


@pytest.mark.parametrize("partition", ["a/b", "a b", "@", "x" * 256])
def test_a_partition_is_one_part_of_a_name(partition: str) -> None:
    with pytest.raises(ConfigError, match="not one part of a name"):
        check_partition(partition)


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_full_name_can_be_split_again(partition: str, name: str) -> None:
    try:
        full = f"@{check_partition(partition)}@{absolute(name)}"
    except ConfigError:
        return
    assert split_full(full) == Target(partition, f"/{name.removeprefix('/')}")


@pytest.mark.parametrize("full", ["/a", "@a", "@a@b", "@a@/b@", "@a@/"])
def test_what_is_no_full_name_is_refused(full: str) -> None:
    with pytest.raises(ConfigError):
        split_full(full)


@pytest.mark.parametrize(
    ("target", "namespace", "places"),
    [
        ("psu", "", ["@p@/psu"]),
        ("psu", "robot1", ["@p@/robot1/psu", "@p@/psu"]),
        ("sim/robot1/psu", "", ["@p@/sim/robot1/psu", "@sim@/robot1/psu"]),
        ("sim/psu", "lab", ["@p@/lab/sim/psu", "@p@/sim/psu", "@sim@/psu"]),
        ("/sim/psu", "lab", ["@p@/lab/sim/psu", "@p@/sim/psu"]),
        ("@sim@/psu", "lab", ["@sim@/psu"]),
    ],
)
def test_an_agent_is_looked_for_in_the_namespace_then_at_the_root_then_in_a_partition(
    target: str, namespace: str, places: list[str]
) -> None:
    assert [f"@{place.partition}@{place.name}" for place in candidates(target, namespace, "p")] == places


def test_in_gz_style_an_agent_with_a_slash_in_front_is_looked_for_at_the_root_alone() -> None:
    assert candidates("/psu", "lab", style="gz") == [Target("", "/psu")]


def test_a_remapped_name_is_replaced_once() -> None:
    remapping = Remapping(["a:=b", "b:=c", "/x/y:=z"], "robot1")
    names = ["/robot1/a", "/robot1/b", "/robot1/x/y", "/a"]
    assert [remapping.apply(name) for name in names] == ["/robot1/b", "/robot1/c", "/robot1/z", "/a"]


@pytest.mark.parametrize("rule", ["a", "a=b", "a:=", ":=b", "a:=b:=c", "a:=b c"])
def test_a_remapping_of_another_form_is_refused(rule: str) -> None:
    with pytest.raises(ConfigError):
        Remapping([rule])


def test_a_name_is_remapped_to_one_name_only() -> None:
    with pytest.raises(ConfigError, match="remapped twice, to /b and to /c"):
        Remapping(["a:=b", "/a:=c"])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ["/psu", "/r/psu1", "/r/s/dmm"]),
        ("psu*", ["/psu", "/r/psu1"]),
        ("psu?", ["/r/psu1"]),
        ("psu", ["/psu"]),
        ("/*", ["/psu"]),
        ("/*/*", ["/r/psu1"]),
        ("/r/**", ["/r/psu1", "/r/s/dmm"]),
        ("**", ["/psu", "/r/psu1", "/r/s/dmm"]),
        ("/**/dmm", ["/r/s/dmm"]),
        ("r/**/p*1", ["/r/psu1"]),
        ("/r/s/dmm", ["/r/s/dmm"]),
        ("/r", []),
    ],
)
def test_a_pattern_finds(pattern: str, found: list[str]) -> None:
    assert [name for name in ("/psu", "/r/psu1", "/r/s/dmm") if Pattern(pattern).matches(name)] == found


@pytest.mark.parametrize("pattern", ["", "a b", "/a//*", "@sim@/*", "~*", "*" * 256])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError):
        Pattern(pattern)


def as_regular_expression(pattern: str) -> str:
    parts = [
        "(/[^/]+)*" if part == "**" else "/" + re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        for part in pattern.removeprefix("/").split("/")
    ]
    return "".join(parts)


@given(
    st.text("ab*?", min_size=1, max_size=8)
    | st.lists(st.sampled_from(["a", "b*", "*", "**", "?"]), min_size=1).map("/".join),
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5),
)
def test_a_pattern_means_what_the_regular_expression_means(pattern: str, parts: list[str]) -> None:
    rooted = f"/{pattern}" if "/" not in pattern else pattern
    name = "/" + "/".join(parts)
    expected = re.fullmatch(as_regular_expression(rooted), name) is not None
    assert Pattern(rooted).matches(name) == expected


def test_a_pattern_of_many_stars_is_matched_at_once() -> None:
    assert not Pattern("/" + "*a" * 60 + "b").matches("/" + "a" * 250)
    assert not Pattern("/**/a" * 40 + "/b").matches("/a" * 120)


def test_a_rule_with_a_private_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="private name"):
        Remapping(["~/a:=b"])
