from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pzc.protocol import arrays
from pzc.protocol.errors import DecodeError, SerializeError

SIMPLE = [
    "?", "<i1", "<i2", ">i4", "<i8", "<u1", ">u2", "<u4", ">u8", "<f2", ">f4", "<f8", "<c8", ">c16",
    "<m8[ns]", ">m8[25us]", "<M8[D]", ">M8[ms]", "<M8", "|S5", "<U3", ">U3", "|V4",
]  # fmt: skip
RECORDS = [
    np.dtype([("a", ">i4"), ("b", "<f8", (2, 2)), ("c", "<U3")]),
    np.dtype([("x", "u1"), ("y", "<f8")], align=True),
    np.dtype([("outer", [("inner", "<M8[s]"), ("t", "S2")])]),
    np.dtype([(("title", "name"), "i4")]),
    np.dtype({"names": ["p"], "formats": ["<i2"], "offsets": [6], "itemsize": 16}),
]
DTYPES = [np.dtype(text) for text in SIMPLE] + RECORDS
SHAPES = [(), (3,), (2, 3), (2, 1, 3), (2, 2, 2, 2), (0,), (2, 0, 3)]


def sample(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """An array whose bytes differ, whatever its dtype; text gets one character per item."""
    array = np.zeros(shape, dtype)
    if dtype.names is not None:
        for name in dtype.names:
            if dtype[name].subdtype is None:
                array[name] = sample(dtype[name], shape)
    elif dtype.kind in "biufcmM":
        array[...] = np.arange(array.size).reshape(shape).astype(dtype)
    elif dtype.kind in "SU":
        array[...] = np.array([chr(97 + n % 26) for n in range(array.size)], dtype="U1").reshape(shape)
    return array


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether dtype and items agree; also for records."""
    if left.shape != right.shape:
        return False
    # Padding inside a record is not content, so items are compared, not bytes.
    return left.dtype == right.dtype and repr(left.tolist()) == repr(right.tolist())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_array_comes_back_with_dtype_shape_and_items(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    array = sample(dtype, shape)
    assert same(arrays.unpack(*arrays.pack(array)), array)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_fortran_array_keeps_its_order(dtype: np.dtype) -> None:
    array = np.asfortranarray(sample(dtype, (2, 3)))
    back = arrays.unpack(*arrays.pack(array))
    assert back.flags.f_contiguous
    assert same(back, array)


@given(hnp.arrays(st.sampled_from(DTYPES[:14]), hnp.array_shapes(min_dims=1, max_dims=4, max_side=4)))
def test_a_strided_array_comes_back(array: np.ndarray) -> None:
    strided = array[::2, ...].T
    assert same(arrays.unpack(*arrays.pack(strided)), strided)


def test_the_alignment_of_a_record_is_kept() -> None:
    dtype = RECORDS[1]
    assert arrays.parse(arrays.describe(dtype)).isalignedstruct


def test_a_contiguous_array_is_not_copied() -> None:
    array = np.arange(10.0)
    _, raw = arrays.pack(array)
    assert np.shares_memory(np.frombuffer(raw, "u1"), array)


def test_an_array_over_bytes_is_read_only() -> None:
    header, raw = arrays.pack(np.arange(3))
    assert not arrays.unpack(header, bytes(raw)).flags.writeable


@pytest.mark.parametrize(
    "dtype",
    [np.dtype(object), np.dtype([("o", object)])],
    ids=str,
)
def test_a_dtype_without_portable_form_is_an_error(dtype: np.dtype) -> None:
    with pytest.raises(SerializeError):
        arrays.pack(np.zeros(2, dtype))


@pytest.mark.parametrize(
    "header",
    [
        None,
        {},
        {"dtype": "<f8", "shape": [1]},
        {"dtype": "<f8", "shape": [2], "order": "C"},
        {"dtype": "<f8", "shape": [-1], "order": "C"},
        {"dtype": "<f8", "shape": [True], "order": "C"},
        {"dtype": "<f8", "shape": [1.0], "order": "C"},
        {"dtype": "<f8", "shape": "1", "order": "C"},
        {"dtype": "<f8", "shape": [1] * 33, "order": "C"},
        {"dtype": "<f8", "shape": [1], "order": "A"},
        {"dtype": "<f8", "shape": [1, 10**30, 0], "order": "C"},
        {"dtype": "|V0", "shape": [10**12], "order": "C"},
        {"dtype": "O", "shape": [1], "order": "C"},
        {"dtype": "|O8", "shape": [1], "order": "C"},
        {"dtype": "i4,i4", "shape": [1], "order": "C"},
        {"dtype": "(2)i4", "shape": [1], "order": "C"},
        {"dtype": "<f3", "shape": [1], "order": "C"},
        {"dtype": "<M8[25]", "shape": [1], "order": "C"},
        {"dtype": 8, "shape": [1], "order": "C"},
        {"dtype": {"base": "<i4"}, "shape": [1], "order": "C"},
        {"dtype": {"base": "<i4", "shape": [10**9, 10**9]}, "shape": [1], "order": "C"},
    ],
    ids=repr,
)
def test_a_malformed_header_is_refused(header: object) -> None:
    with pytest.raises(DecodeError):
        arrays.unpack(header, bytes(8))


def record_form(**changes: object) -> dict[str, object]:
    form: dict[str, object] = {
        "names": ["a"],
        "titles": [None], "formats": ["<i4"], "offsets": [0], "itemsize": 8, "align": False,
    }  # fmt: skip
    return form | changes


def test_the_plain_record_form_is_accepted() -> None:
    assert arrays.parse(record_form()).itemsize == 8


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": [8]},
        {"offsets": [-4]},
        {"offsets": [2**62]},
        {"itemsize": 2},
        {"itemsize": -8},
        {"itemsize": 2**70},
        {"names": ["a", "b"]},
        {"names": [1]},
        {"titles": [1]},
        {"titles": ["a"]},
        {"names": "a"},
        {"formats": ["O"]},
        {"align": 1},
    ],
    ids=repr,
)
def test_a_record_that_does_not_fit_its_item_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(DecodeError):
        arrays.parse(record_form(**changes))


def test_a_dtype_nested_without_end_is_refused() -> None:
    form: object = "<i4"
    for _ in range(1000):
        form = {"base": form, "shape": [1]}
    with pytest.raises(DecodeError):
        arrays.parse(form)


@pytest.mark.parametrize("dtype", [np.dtype("<U1"), np.dtype(">U1"), np.dtype([("t", "<U1")])], ids=str)
def test_array_text_outside_unicode_is_refused(dtype: np.dtype) -> None:
    with pytest.raises(DecodeError):
        arrays.view(b"\xff\xff\xff\xff", dtype, (1,), "C")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["dtype", "shape", "order", "base", "names", "formats"]), inner)
        ),
    ),
    st.binary(max_size=16),
)
def test_any_header_gives_an_array_or_a_decode_error(header: object, raw: bytes) -> None:
    with contextlib.suppress(DecodeError):
        assert isinstance(arrays.unpack(header, raw), np.ndarray)
