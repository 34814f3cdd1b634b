"""Keys of large MessagePack maps."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import serializers
from pzc.protocol.errors import DecodeError
from pzc.protocol.msgpack_keys import checked

PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    PLAIN | st.binary() | st.builds(msgspec.msgpack.Ext, st.just(5), st.binary()),
    lambda inner: st.lists(inner) | st.dictionaries(PLAIN | st.tuples(PLAIN), inner),
)
PADDING = bytes(1 << 16)
"""Makes a content large enough to be looked at."""


@given(VALUES)
def test_plain_contents_pass(value: object) -> None:
    data = msgspec.msgpack.encode([{str(n): n for n in range(100)}, PADDING, value])
    assert checked(data) is data


@given(VALUES)
def test_a_map_of_many_arrays_is_found_behind_anything(value: object) -> None:
    table = {(n,): n for n in range(100)}
    data = msgspec.msgpack.encode([value, PADDING, [{"inside": table}]])
    with pytest.raises(DecodeError, match="keys"):
        serializers.decode("msgpack", data, trusted=False)


@pytest.mark.parametrize("levels", [1, 100])
def test_a_map_of_many_arrays_is_found_in_what_is_nested(levels: int) -> None:
    data = msgspec.msgpack.encode(["tuple", [PADDING, {(n,): n for n in range(100)}]])
    for _ in range(levels):
        data = msgspec.msgpack.encode(["tuple", [msgspec.msgpack.Ext(1, data)]])
    with pytest.raises(DecodeError, match="keys"):
        serializers.decode("msgpack", msgspec.msgpack.encode(msgspec.msgpack.Ext(1, data)), trusted=False)
