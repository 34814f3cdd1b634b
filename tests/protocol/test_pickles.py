"""Exactly one pickle in the bytes, whatever its size, protocol and content."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.errors import DecodeError
from pzc.protocol.pickles import load_exactly

LARGE = 1 << 16
protocols = st.integers(0, 5)
contents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)
buffers = st.sampled_from([bytes, bytearray, memoryview])


@given(contents, protocols, buffers)
def test_any_content_comes_back_from_any_buffer(content: object, protocol: int, buffer: type) -> None:
    raw = pickle.dumps(content, protocol)
    assert load_exactly(buffer(raw)) == content


@given(contents, protocols, st.binary(min_size=1))
def test_bytes_behind_a_pickle_are_refused(content: object, protocol: int, tail: bytes) -> None:
    with pytest.raises(DecodeError):
        load_exactly(pickle.dumps(content, protocol) + tail)


@given(contents, protocols, st.data())
def test_a_pickle_that_was_cut_off_is_refused(content: object, protocol: int, data: st.DataObject) -> None:
    raw = pickle.dumps(content, protocol)
    with pytest.raises(Exception):  # noqa: B017, PT011
        load_exactly(raw[: data.draw(st.integers(0, len(raw) - 1))])


@pytest.mark.parametrize("size", [10, LARGE, 3 * LARGE])
def test_a_pickle_of_any_size_is_read_to_its_end(size: int) -> None:
    raw = pickle.dumps(b"x" * size, 5)
    assert load_exactly(raw) == b"x" * size
    with pytest.raises(DecodeError):
        load_exactly(raw + b".")
