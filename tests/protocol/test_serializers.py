"""Serializers by name: what is on the wire, where large arrays lie, and what cannot be sent or read."""

from __future__ import annotations

import gc
import json
import pickle
import re
import struct
import threading
import weakref
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import buffers
from pzc.protocol.errors import DecodeError, LocalProtocolError, SerializeError, SerializerRefused
from pzc.protocol.serializers import decode, default_accept, encode, lay_out, names, pack, validate

SAMPLE = {"a": [1.5, "text", None, True], "b": {"c": -7}}
IMAGE = np.arange(20_000.0)
FRAMES = pytest.mark.parametrize("name", ["arrays", "buffers"])
EVERY = sorted({*names()} - {"link"})


class Own:
    """A class of the lab's own."""


@pytest.mark.parametrize("name", ["pickle", *(f"pickle{n}" for n in range(6)), "json", "msgpack"])
def test_a_serializer_can_be_chosen(name: str) -> None:
    validate(name)
    assert decode(name, encode(name, SAMPLE), trusted=True) == SAMPLE


@pytest.mark.parametrize("name", ["", "pickle6", "PICKLE", "yaml", "buffers", "arrays", "link"])
def test_no_other_name_can_be_chosen(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="known are json, msgpack, pickle"):
        validate(name)
    with pytest.raises(LocalProtocolError):
        default_accept(name)


def test_who_sends_no_pickles_accepts_none() -> None:
    assert default_accept("json") == default_accept("msgpack") == {"json", "msgpack"}
    assert default_accept("pickle2") == {"json", "msgpack", "pickle"}


def test_plain_data_is_what_everybody_writes() -> None:
    assert encode("json", SAMPLE) == json.dumps(SAMPLE).encode()
    assert encode("msgpack", SAMPLE) == msgspec.msgpack.encode(SAMPLE)
    assert encode("pickle", SAMPLE) == pickle.dumps(SAMPLE, 5)


# --- arrays beside the body --------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "beside"), [("msgpack", "arrays"), ("pickle", "buffers")])
def test_large_arrays_lie_beside_the_body_and_small_ones_in_it(name: str, beside: str) -> None:
    assert pack(name, [IMAGE[:10].copy()])[0] == name
    told, data = pack(name, {"image": IMAGE})
    assert told == beside
    np.testing.assert_array_equal(decode(told, data, trusted=True)["image"], IMAGE)


@FRAMES
def test_the_frame_is_as_documented(name: str) -> None:
    frame = bytes(encode(name, [np.arange(10, dtype="u1"), np.arange(3.0)]))
    magic, count, body, first, second = struct.unpack_from("<4sIQQQ", frame)
    assert (magic, count, first, second) == (b"PZB1", 2, 10, 24)
    start = -(-(32 + body) // 64) * 64
    assert frame[start : start + 10] == bytes(range(10))
    assert frame[start + 64 :] == np.arange(3.0).tobytes()


@FRAMES
def test_an_array_is_a_read_only_view_of_its_frame(name: str) -> None:
    frame = bytearray(encode(name, IMAGE))
    image = decode(name, frame, trusted=True)
    assert not image.flags.writeable
    assert np.shares_memory(image, np.frombuffer(frame, "u1"))


@pytest.mark.parametrize("read_only", [False, True], ids=["writable memory", "received bytes"])
@pytest.mark.parametrize("name", ["arrays", "buffers", "msgpack", "json"])
def test_an_array_may_be_written_when_that_is_asked_for(name: str, read_only: bool) -> None:
    data = (bytes if read_only else bytearray)(encode(name, [IMAGE]))
    (image,) = decode(name, data, trusted=True, writable=True)
    image[0] = 5.0
    assert np.shares_memory(image, np.frombuffer(data, "u1")) == (
        name in ("arrays", "buffers") and not read_only
    )


class Memory(bytearray):
    """Says when it is free."""


@FRAMES
def test_a_frame_is_free_as_soon_as_its_arrays_are_dropped(name: str) -> None:
    frame = Memory(encode(name, {"image": IMAGE, "more": (1, {2})}))
    free = weakref.ref(frame)
    gc.disable()
    try:
        content = decode(name, frame, trusted=True)
        del content, frame
        assert free() is None
    finally:
        gc.enable()


def test_the_place_of_an_array_can_be_filled_later() -> None:
    name, frame, place = lay_out(IMAGE, None)
    place[:] = IMAGE.tobytes()
    np.testing.assert_array_equal(decode(name, frame, trusted=False), IMAGE)


@FRAMES
@pytest.mark.parametrize(
    ("at", "value"), [(0, 0), (4, 9), (4, 1 << 31), (8, 1 << 20), (16, 1), (16, 1 << 63)]
)
def test_numbers_in_the_head_that_do_not_fit_are_refused(name: str, at: int, value: int) -> None:
    frame = bytearray(encode(name, [IMAGE]))
    struct.pack_into("<Q" if at >= 8 else "<I", frame, at, value)
    with pytest.raises(DecodeError):
        decode(name, frame, trusted=True)


def test_a_frame_has_as_many_buffers_as_a_receiver_takes() -> None:
    arrays = [np.zeros(1, "u1")] * (buffers.MOST + 1)
    assert len(decode("arrays", encode("arrays", arrays), trusted=False)) == len(arrays)
    many = buffers.FIXED.pack(buffers.MAGIC, buffers.MOST + 1, 1) + bytes(8 * buffers.MOST + 8) + b"\xc0"
    with pytest.raises(DecodeError, match="too many"):
        decode("arrays", many, trusted=False)


def test_bytes_between_buffers_are_refused() -> None:
    frame = bytearray(buffers.write(b"\xc0", [memoryview(b"x")]))
    frame[-2] = 1
    with pytest.raises(DecodeError, match="padding"):
        decode("arrays", frame, trusted=False)


# --- what cannot be sent -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["msgpack", "json"])
@pytest.mark.parametrize(
    ("content", "path"),
    [
        (Own(), "this content is"), ({"a": [1, {"b": Own()}]}, r"a\[1\]\.b is"), (({7: Own()},), r"\[0\]\[7\] is"),
        (("PSMessage", "exec", {"name": "move", "args": (1, Own())}), r"args\[1\] is"),
    ],
    ids=["itself", "in tables", "in a tuple", "an argument"],
)  # fmt: skip
def test_what_cannot_be_sent_is_named_with_path_class_and_what_to_do(
    name: str, content: object, path: str
) -> None:
    with pytest.raises(SerializeError, match=rf"^{path} of class {re.escape(__name__)}\.Own, .*PZC_KEY"):
        pack(name, content)


def test_what_cannot_be_pickled_is_named_without_advice() -> None:
    with pytest.raises(SerializeError, match=r"^\[1\] is of class _thread\.lock") as found:
        pack("pickle", [1, threading.Lock()])
    assert "PZC_KEY" not in str(found.value)


@pytest.mark.parametrize("name", ["msgpack", "json"])
def test_a_list_that_holds_itself_is_refused(name: str) -> None:
    content: list[Any] = []
    content.append(content)
    with pytest.raises(SerializeError):
        encode(name, content)


# --- what cannot be read -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["buffers", "yaml", "pickle6", ""])
def test_a_stranger_may_not_use_every_serializer(name: str) -> None:
    with pytest.raises(SerializerRefused):
        decode(name, b"N.", trusted=False)


def test_only_a_trusted_pickle_may_hold_any_class() -> None:
    raw = encode("pickle", Own())
    assert isinstance(decode("pickle", raw, trusted=True), Own)
    with pytest.raises(SerializerRefused, match=r"\.Own"):
        decode("pickle", raw, trusted=False)


@pytest.mark.parametrize("name", EVERY)
@given(data=st.binary(max_size=99))
def test_noise_gives_data_or_an_error_of_ours(name: str, data: bytes) -> None:
    with suppress(DecodeError, SerializerRefused):
        decode(name, data, trusted=False)


@given(st.sampled_from([IMAGE[:3], ValueError("x", {1}), (1, {2: 3}), 1 << 70]), st.data())
def test_altered_content_gives_data_or_an_error_of_ours(value: object, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["msgpack", "arrays", "json"]))
    raw = bytearray(encode(name, [value]))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DecodeError, SerializerRefused):
        decode(name, raw, trusted=data.draw(st.booleans()))


class Stops:
    """Raises while it is unpickled."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return _raise, (self.error,)


def _raise(error: type[BaseException]) -> None:
    raise error


@pytest.mark.parametrize("error", [MemoryError, RecursionError, StopIteration, ImportError])
def test_an_error_of_what_is_unpickled_is_a_decode_error(error: type[Exception]) -> None:
    with pytest.raises(DecodeError, match=error.__name__):
        decode("pickle", encode("pickle", Stops(error)), trusted=True)


def test_an_interrupt_while_decoding_goes_on() -> None:
    with pytest.raises(KeyboardInterrupt):
        decode("pickle", encode("pickle", Stops(KeyboardInterrupt)), trusted=True)
