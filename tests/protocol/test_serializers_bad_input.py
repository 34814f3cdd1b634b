from __future__ import annotations

import contextlib
import datetime as dt
import pickle
import struct
import tracemalloc
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.errors import (
    DecodeError,
    SerializerRefused,
)
from pzc.protocol.serializers import decode, encode

PICKLES = ["pickle", *(f"pickle{n}" for n in range(6))]
NAMES = [*PICKLES, "json", "msgpack", "buffers"]
EXACT = [*PICKLES, "buffers"]

Trust = pytest.mark.parametrize("trusted", [True, False], ids=["signed", "unsigned"])

ReadToItsEnd = pytest.mark.parametrize(
    ("name", "trusted"),
    [*((name, False) for name in NAMES), *((name, True) for name in NAMES[len(PICKLES) :])],
)


class Opaque:
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


DAMAGED = [
    b"\x00\xff",
    dt.time(1),
    {1, "a"},
    1 - 2j,
    uuid.UUID(int=7),
    np.int16(3),
    np.arange(4),
    ValueError("x", 1),
]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.binary(max_size=200))
def test_unsigned_random_bytes_give_data_or_a_typed_error(name: str, data: bytes) -> None:
    with contextlib.suppress(DecodeError, SerializerRefused):
        decode(name, data, trusted=False)


@pytest.mark.parametrize("name", ["json", "msgpack"])
@given(value=st.sampled_from(DAMAGED), draw=st.data())
def test_damaged_safe_content_gives_data_or_a_typed_error(
    name: str, value: object, draw: st.DataObject
) -> None:
    data = bytearray(encode(name, [value]))
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(DecodeError, SerializerRefused):
        decode(name, bytes(data), trusted=True)


SAMPLE = {"a": [1.5, "text", "raw", None, True], "b": {"c": -7}}


@Trust
@pytest.mark.parametrize("name", NAMES)
def test_truncated_content_is_a_decode_error(name: str, trusted: bool) -> None:
    data = bytes(encode(name, SAMPLE))
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode(name, data[:end], trusted=trusted)


@pytest.mark.parametrize("tail", [b"\x00", b".", b"junk.", b"N.", b"\x97.", b"\x97\x86."], ids=repr)
@ReadToItsEnd
def test_content_followed_by_bytes_is_a_decode_error(name: str, tail: bytes, trusted: bool) -> None:
    with pytest.raises(DecodeError):
        decode(name, bytes(encode(name, SAMPLE)) + tail, trusted=trusted)


@pytest.mark.parametrize("tail", [b"\x00", b"junk."], ids=repr)
@pytest.mark.parametrize("name", PICKLES)
def test_what_follows_a_trusted_pickle_is_ignored(name: str, tail: bytes) -> None:
    assert decode(name, bytes(encode(name, SAMPLE)) + tail, trusted=True) == SAMPLE


@ReadToItsEnd
def test_large_content_followed_by_bytes_is_a_decode_error(name: str, trusted: bool) -> None:
    value = [b"x" * 200_000, "y" * 200_000]
    data = bytes(encode(name, value))
    assert decode(name, data, trusted=trusted) == value
    with pytest.raises(DecodeError):
        decode(name, data + b".", trusted=trusted)


@Trust
@pytest.mark.parametrize("name", NAMES)
def test_a_memoryview_is_decoded_like_bytes(name: str, trusted: bool) -> None:
    assert decode(name, memoryview(bytes(encode(name, SAMPLE))), trusted=trusted) == SAMPLE


@Trust
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("json", b"[" * 200_000),
        ("json", b'{"__pzc__":"list","value":' * 50_000),
        ("msgpack", b"\x91" * 200_000),
        ("msgpack", b"\xdd\xff\xff\xff\xff"),
        ("msgpack", b"\xc6\xff\xff\xff\xffab"),
        ("msgpack", b"\xd4\x05\x00"),
        ("msgpack", b"\xd4\x01\xc0"),
        ("msgpack", b"\xd4\x02\xc0"),
        ("msgpack", b"\xc7\x05\x02\xff\xff\xff\xff\xc0"),
        ("json", b'{"__pzc__":"nonsense","value":1}'),
        ("json", b'{"__pzc__":"bytes","value":"Q"}'),
        ("json", b'{"__pzc__":"bytes"}'),
        ("json", b'{"__pzc__":[],"value":1}'),
        ("json", b'{"__pzc__":"set","value":[[]]}'),
        ("json", b'{"__pzc__":"timedelta","value":[1e9,0,0]}'),
        ("json", b'{"__pzc__":"range","value":[0,1000000000000,1]}'),
        ("json", b'{"__pzc__":"range","value":[0,1,0]}'),
        ("json", b'{"__pzc__":"range","value":[0,1.5,1]}'),
        ("json", b'{"__pzc__":"slice","value":[0]}'),
        ("json", b'{"__pzc__":"timedelta","value":[10000000000000,0,0]}'),
        ("json", b'{"__pzc__":"complex","value":["1",0]}'),
        ("json", b'{"__pzc__":"decimal","value":"x"}'),
        (
            "json",
            b'{"__pzc__":"exception","value":{"type":"builtins.KeyError","text":"","args":1,"state":{}}}',
        ),
        (
            "json",
            b'{"__pzc__":"exception","value":{"type":"builtins.OSError","text":"","args":[],"state":{"__class__":1}}}',
        ),
        ("json", b'{"__pzc__":"objects","value":[[1000000000000],[1]]}'),
        ("json", b"\xff\xfe\xff"),
        ("pickle", pickle.dumps(1)[:-1] + b"0."),
        ("pickle", b"\x80\x05\x97."),
    ],
    ids=lambda value: repr(value[:50]),
)
def test_malformed_content_is_a_decode_error_and_takes_little_memory(
    name: str, data: bytes, trusted: bool
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(name, data, trusted=trusted)
        assert tracemalloc.get_traced_memory()[1] < 64 * (1 << 20)
    finally:
        tracemalloc.stop()


class Stops:
    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __reduce__(self) -> tuple[object, ...]:
        return raise_it, (self.error,)


def raise_it(error: type[BaseException]) -> None:
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_decoding_is_not_swallowed(error: type[BaseException]) -> None:
    with pytest.raises(error):
        decode("pickle", encode("pickle", Stops(error)), trusted=True)


@pytest.mark.parametrize("error", [MemoryError, RecursionError, Mute, StopIteration, ImportError])
def test_any_error_while_decoding_is_a_decode_error(error: type[Exception]) -> None:
    with pytest.raises(DecodeError, match=error.__name__):
        decode("pickle", encode("pickle", Stops(error)), trusted=True)


@pytest.mark.parametrize("name", EXACT)
def test_a_signed_pickle_may_hold_any_class(name: str) -> None:
    assert isinstance(decode(name, encode(name, Opaque()), trusted=True), Opaque)


@pytest.mark.parametrize("name", EXACT)
def test_an_unsigned_pickle_may_not_hold_any_class(name: str) -> None:
    with pytest.raises(SerializerRefused, match="Opaque"):
        decode(name, encode(name, Opaque()), trusted=False)


# --- buffers -----------------------------------------------------------------------------------------


def test_the_layout_of_buffers_is_as_documented() -> None:
    arrays = [np.arange(10, dtype="u1"), np.arange(3.0)]
    frame = bytes(encode("buffers", arrays))
    magic, count, pickled, first, second = struct.unpack_from("<4sIQQQ", frame)
    assert (magic, count, first, second) == (b"PZB1", 2, 10, 24)
    start = -(-(32 + pickled) // 64) * 64
    assert frame[start : start + 10] == arrays[0].tobytes()
    assert frame[start + 64 :] == arrays[1].tobytes()


@Trust
def test_decoded_arrays_are_read_only_views_of_the_frame(trusted: bool) -> None:
    frame = encode("buffers", {"image": np.ones((64, 64))})
    image = decode("buffers", memoryview(frame), trusted=trusted)["image"]
    assert not image.flags.writeable
    assert np.shares_memory(image, np.frombuffer(frame, "u1"))


def test_encoding_copies_a_large_buffer_once() -> None:
    value = np.ones(1 << 22, "u1")
    tracemalloc.start()
    try:
        encode("buffers", value)
        assert tracemalloc.get_traced_memory()[1] < (1 << 22) * 1.5
    finally:
        tracemalloc.stop()


@Trust
@given(draw=st.data())
def test_a_wrong_count_or_length_in_the_header_of_buffers_is_refused(
    trusted: bool, draw: st.DataObject
) -> None:
    frame = bytearray(encode("buffers", [np.arange(10), np.arange(7)]))
    place, form = draw.draw(st.sampled_from([(0, "<I"), (4, "<I"), (8, "<Q"), (16, "<Q"), (24, "<Q")]))
    value = draw.draw(st.integers(0, 2 ** (8 * struct.calcsize(form)) - 1) | st.integers(0, 200))
    if struct.unpack_from(form, frame, place)[0] == value:
        return
    struct.pack_into(form, frame, place, value)
    with pytest.raises(DecodeError):
        decode("buffers", memoryview(frame), trusted=trusted)


@Trust
def test_padding_between_buffers_must_be_zero(trusted: bool) -> None:
    frame = bytearray(encode("buffers", [np.arange(10, dtype="u1"), np.arange(3)]))
    frame[-25] = 1
    with pytest.raises(DecodeError, match="padding"):
        decode("buffers", memoryview(frame), trusted=trusted)


@Trust
def test_a_buffer_that_the_pickle_does_not_use_is_refused(trusted: bool) -> None:
    pickled = pickle.dumps(1)
    frame = struct.pack("<4sIQQ", b"PZB1", 1, len(pickled), 1) + pickled
    frame = frame.ljust(64, b"\x00") + b"x"
    with pytest.raises(DecodeError):
        decode("buffers", frame, trusted=trusted)
