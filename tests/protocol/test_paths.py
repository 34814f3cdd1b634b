from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import paths, serializers
from pzc.protocol.errors import LocalProtocolError, MemberRefused, RemoteProtocolError
from pzc.protocol.paths import Handle, Path

TEXTS: dict[str, Path] = {
    "": (),
    "voltage": ("voltage",),
    "dac.ch1.unit": ("dac", "ch1", "unit"),
    "dac.channels[0].off": ("dac", "channels", (0,), "off"),
    "channels[-1]": ("channels", (-1,)),
    "lockins['a.b']['x]'].y": ("lockins", ("a.b",), ("x]",), "y"),
    "channels[1:3]": ("channels", (1, 3, None)),
    "channels[::-1][0]": ("channels", (None, None, -1), (0,)),
    "grid[(1, 2)].on": ("grid", ((1, 2),), "on"),
    "[0].off": ((0,), "off"),
    "@1f3a.voltage": (Handle("1f3a"), "voltage"),
    "@1f3a[0]": (Handle("1f3a"), (0,)),
}

keys = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=9),
    st.binary(max_size=9),
)  # fmt: skip
bounds = st.none() | st.integers(-(10**9), 10**9)
steps = st.one_of(
    st.sampled_from(["ch1", "voltage", "ä"]),
    st.tuples(keys),
    st.tuples(st.tuples(keys, keys)),
    st.tuples(bounds, bounds, bounds),
)
written = st.tuples(st.just([]) | st.just([Handle("1f3a")]), st.lists(steps, max_size=6)).map(
    lambda parts: (*parts[0], *parts[1])
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_path_is_read_as_people_write_it(text: str) -> None:
    assert paths.parse(text) == TEXTS[text]
    assert paths.parse(paths.text(TEXTS[text])) == TEXTS[text]


@given(written)
def test_a_path_comes_back_from_its_text_and_from_the_wire(path: Path) -> None:
    assert paths.parse(paths.text(path)) == path
    for serializer in ("pickle", "json", "msgpack"):
        data = serializers.encode(serializer, {"on": paths.to_wire(path)})
        decoded = serializers.decode(serializer, data, trusted=False)
        assert paths.from_wire(decoded["on"]) == path


@pytest.mark.parametrize(
    "text", [".a", "a.", "a..b", "a[", "a[0", "a[b]", "a[f()]", "a]", "a b", "1", "a[0]b", "@x.a", "a.@1f3a", "a.1",
             "a" * 2000, "a" + "[0]" * 40, "a[" + "(" * 300 + "]", f"a[{' ' * 330}:{' ' * 330}:{' ' * 330}!]"],
)  # fmt: skip
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(LocalProtocolError):
        paths.parse(text)


@pytest.mark.parametrize("text", ["_a", "a._b", "a[0].__class__"])
def test_a_private_name_is_in_no_path(text: str) -> None:
    with pytest.raises(MemberRefused, match="private"):
        paths.parse(text)
    with pytest.raises(MemberRefused, match="private"):
        paths.from_wire(["a", "_b"])


@pytest.mark.parametrize(
    "steps",
    ["ch1", None, [1], [[]], [[1, 2]], [[object()]], [[{}]], [[1.5, 2, 3]], [{"handle": 1}], [{"handle": "X"}],
     [{"other": "1f3a"}], ["a", {"handle": "1f3a"}], ["a"] * 33, [["a" * 2000]], [[[1, [2]]]]],
)  # fmt: skip
def test_steps_that_are_none_are_refused(steps: object) -> None:
    with pytest.raises(RemoteProtocolError):
        paths.from_wire(steps)


def test_what_came_in_the_place_of_a_path_is_told() -> None:
    with pytest.raises(RemoteProtocolError, match=r"'ch1\.voltage'"):
        paths.from_wire("ch1.voltage")
