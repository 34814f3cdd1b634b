"""Array headers: arrays whose pickle was seen before."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from pzc.protocol import buffers, serializers
from pzc.protocol.errors import DecodeError


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    buffers.known.clear()


def decoded(content: object, trusted: bool = False) -> Any:
    return serializers.decode("buffers", bytes(serializers.encode("buffers", content)), trusted=trusted)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0),
        np.arange(6, dtype="u2").reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(3, dtype=">i4"),
        np.array([True, False]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
@pytest.mark.parametrize("trusted", [False, True])
def test_an_array_that_is_recalled_equals_the_first_one(array: Any, trusted: bool) -> None:
    first, second = decoded(array, trusted), decoded(array, trusted)
    assert len(buffers.known) == 1
    for found in (first, second):
        np.testing.assert_array_equal(found, array)
        assert (found.dtype, found.flags.f_contiguous) == (array.dtype, array.flags.f_contiguous)
        assert not found.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0),
        np.array(1.5),
        np.zeros((0, 3)),
        np.arange(6, dtype="c8").reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(6)[::2],
        np.arange(3, dtype=">i4"),
        np.zeros(3, np.dtype("f8", metadata={"unit": "V"})),  # type: ignore[call-overload]
        np.zeros(2, "i4,f8"),
        np.zeros(2, "M8[s]"),
        np.ma.array([1.0, 2.0]),
    ],
    ids=lambda array: f"{type(array).__name__}-{array.dtype}{array.shape}",
)
@pytest.mark.filterwarnings("ignore:metadata on a dtype")
def test_an_array_is_written_as_pickle_writes_it_the_first_time_and_later(array: Any) -> None:
    for each in (array, array, array.copy()):
        found: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(each, 5, buffer_callback=found.append)
        views = [buffer.raw() for buffer in found]
        frame = buffers.write(buffers.head_of(pickled, views), views, None)
        assert serializers.encode("buffers", each) == frame


def test_a_frame_is_light_whatever_its_array_weighs_unless_much_lies_beside_it() -> None:
    array = np.zeros(buffers.LARGE)
    assert buffers.is_light(buffers.encode(array))
    assert not buffers.is_light(buffers.encode((array, "x" * buffers.LARGE)))
    assert not buffers.is_light(buffers.encode([array[:1] for _ in range(buffers.LARGE // 8)]))


def test_buffers_that_are_copied_beside_other_threads_lie_where_small_ones_do() -> None:
    content = [np.arange(3, dtype="u1"), np.arange(buffers.HUGE // 4, dtype="f4"), b"x" * buffers.HUGE]
    for trusted in (False, True):
        small, large, data = serializers.decode("buffers", buffers.encode(content), trusted=trusted)
        np.testing.assert_array_equal(small, content[0])
        np.testing.assert_array_equal(large, content[1])
        assert data == content[2]


def test_an_array_that_became_read_only_is_written_as_that() -> None:
    array = np.arange(4.0)
    before = serializers.encode("buffers", array)
    array.flags.writeable = False
    assert serializers.encode("buffers", array) != before


def test_each_array_has_its_own_values() -> None:
    decoded(np.zeros(4))
    np.testing.assert_array_equal(decoded(np.arange(4.0)), np.arange(4.0))


@pytest.mark.parametrize(
    "content",
    [[np.arange(3.0)], (np.arange(3), np.arange(3)), np.array(["text"]), np.zeros(2, "i4,f8"), b"x" * 99, {}],
    ids=repr,
)
def test_nothing_but_one_plain_array_is_remembered(content: object) -> None:
    decoded(content)
    assert not buffers.known


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
def test_an_array_is_recalled_as_writable_as_it_is_asked_for(trusted: bool, fixed: bool) -> None:
    array = np.zeros(152)  # a number that is the opcode's as well
    array.flags.writeable = not fixed
    frame = bytes(serializers.encode("buffers", array))
    for writable in (False, True, True):
        found: Any = serializers.decode("buffers", bytearray(frame), trusted=trusted, writable=writable)
        assert found.flags.writeable == writable
    assert len(buffers.known) == 1


_made: list[int] = []


def _make(buffer: Any) -> Any:
    _made.append(1)
    return np.frombuffer(buffer, "f8")


class Counted:
    """An array when it is unpickled, which is counted."""

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return _make, (pickle.PickleBuffer(bytearray(np.arange(4.0).tobytes())),)


def test_what_a_trusted_pickle_does_beside_making_an_array_is_done_each_time() -> None:
    _made.clear()
    for _ in range(3):
        np.testing.assert_array_equal(decoded(Counted(), trusted=True), np.arange(4.0))
    assert len(_made) == 3
    assert not buffers.known


def test_a_buffer_of_another_size_is_refused_as_before() -> None:
    frame = bytes(serializers.encode("buffers", np.arange(4.0)))
    serializers.decode("buffers", frame, trusted=False)
    shorter = frame[:16] + (24).to_bytes(8, "little") + frame[24:-8]
    with pytest.raises(DecodeError):
        serializers.decode("buffers", shorter, trusted=False)


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("change", [-8, -1, 1, 8])
def test_a_frame_that_ends_elsewhere_is_refused_though_its_head_is_known(change: int, trusted: bool) -> None:
    frame = bytes(serializers.encode("buffers", np.arange(4.0)))
    serializers.decode("buffers", frame, trusted=trusted)
    other = (frame + bytes(8))[: len(frame) + change]
    with pytest.raises(DecodeError):
        serializers.decode("buffers", other, trusted=trusted)


def test_an_array_that_is_recalled_lies_where_its_frame_does() -> None:
    frame = bytearray(serializers.encode("buffers", np.arange(4.0)))
    for value in (1.0, 2.0, 3.0):
        found: Any = serializers.decode("buffers", frame, trusted=False, writable=True)
        found[:] = value
        assert frame[-8:] == np.float64(value).tobytes()
        assert found.ctypes.data % 8 == 0
