"""Fronts: arrays of which one of the same kind was encoded before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import buffers, fronts, serializers


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    fronts._known.clear()


def encoded(content: object) -> bytes:
    return bytes(buffers.encode(content))


@given(
    st.sampled_from(["f8", "f4", "<f8", ">f8", "i2", ">u4", "?", "c16", "f2"]),
    st.lists(st.integers(1, 5), min_size=0, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_a_frame_with_a_known_front_is_the_one_that_pickle_makes(
    dtype: str, shape: list[int], writable: bool, fortran: bool
) -> None:
    fronts._known.clear()
    one: Any = np.zeros(shape, dtype, order="F" if fortran else "C")
    other: Any = np.ones(shape, dtype, order="F" if fortran else "C")
    one.flags.writeable = other.flags.writeable = writable
    wanted = encoded(other)
    fronts._known.clear()
    encoded(one)
    assert encoded(other) == wanted
    found: Any = serializers.decode("buffers", wanted, trusted=True)
    np.testing.assert_array_equal(found, other)
    assert (found.dtype, found.flags.f_contiguous) == (other.dtype, other.flags.f_contiguous)


@pytest.mark.parametrize(
    "content",
    [
        np.zeros((4, 4))[:, ::2],
        np.asfortranarray(np.zeros((2, 3))),
        np.zeros(2, "i4,f8"),
        np.zeros(2, np.dtype("f8", metadata={"unit": "V"})),
        np.zeros(2, "M8[s]"),
        np.array(["text"]),
        np.array([None]),
        np.ma.masked_array(np.zeros(2)),
        np.float64(1),
        [np.zeros(2)],
    ],
    ids=repr,
)
def test_nothing_but_an_array_of_numbers_in_c_order_has_a_front(content: object) -> None:
    assert fronts.kind_of(content) is None


def test_a_read_only_array_is_another_kind_than_a_writable_one() -> None:
    writable, fixed = np.zeros(4), np.zeros(4)
    fixed.flags.writeable = False
    encoded(writable)
    encoded(fixed)
    assert len(fronts._known) == 2
    assert b"\x98" in encoded(fixed)[:-32]  # the opcode that makes a buffer read-only
    assert b"\x98" not in encoded(writable)[:-32]


@pytest.mark.parametrize("size", [8192, 8193])
def test_whether_an_array_becomes_buffers_does_not_depend_on_what_is_known(size: int) -> None:
    array = np.arange(float(size))
    found = [serializers.encode_arrays(array) for _ in range(2)]
    encoded(array)
    found.append(serializers.encode_arrays(array))
    assert {name for name, _ in found} == {"buffers" if size > 8192 else "pickle"}
    assert len({bytes(body) for _, body in found}) == 1


def test_an_array_with_a_known_front_goes_into_the_memory_that_is_given() -> None:
    memory = bytearray(1000)
    for number in range(2):
        frame = buffers.encode(np.full(8, float(number)), lambda _size: memory)
        assert frame.obj is memory
        np.testing.assert_array_equal(np.frombuffer(frame[-64:], "f8"), np.full(8, float(number)))


def test_no_more_is_remembered_than_its_bound(timings: Callable[..., None]) -> None:
    timings(known_fronts=3)
    for size in range(1, 9):
        encoded(np.zeros(size))
    assert 0 < len(fronts._known) <= 3
