"""The look at MessagePack before it is decoded: what the encoder writes passes, what a decoder would choke on does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.errors import DecodeError
from pzc.protocol.msgpack_check import ITEMS, check
from pzc.protocol.restricted import LEVELS
from pzc.protocol.serializers import encode

content = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.sets(st.integers()),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
)  # fmt: skip


@given(content)
def test_what_the_encoder_writes_passes(value: object) -> None:
    check(encode("msgpack", value))


@pytest.mark.parametrize("size", [0, 15, 16, 31, 32, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize(
    "make",
    [
        bytes,
        lambda n: "x" * n,
        lambda n: [None] * n,
        lambda n: dict.fromkeys(range(n)),
        lambda n: (None,) * n,
    ],
)
def test_containers_of_every_length_pass(make: Any, size: int) -> None:
    check(encode("msgpack", make(size)))


@given(content, st.data())
def test_what_passes_is_well_formed(value: object, data: st.DataObject) -> None:
    raw = bytearray(encode("msgpack", value))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + 1] = data.draw(st.binary(max_size=2))
        if not raw:
            return
    try:
        check(raw)
    except DecodeError:
        return
    told = ""
    try:
        msgspec.msgpack.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, OverflowError, TypeError) as error:
        told = str(error)  # of texts, times and keys, which it does not judge
    assert "truncated" not in told
    assert "malformed" not in told


@given(content)
def test_every_truncated_content_is_refused(value: object) -> None:
    raw = bytes(encode("msgpack", value))
    for end in range(len(raw)):
        with pytest.raises(DecodeError):
            check(raw[:end])


LIST = msgspec.msgpack.encode
HOSTILE = {
    "nested lists": b"\x91" * (LEVELS + 1) + b"\xc0",
    "nested tables": b"\x81\xa1a" * (LEVELS + 1) + b"\xc0",
    "nested deeply": b"\x91" * 1_000_000 + b"\xc0",
    "many items": b"\xdd" + (ITEMS + 1).to_bytes(4, "big") + b"\xc0" * (ITEMS + 1),
    "many items in several lists": b"\x92"
    + 2 * (b"\xdd" + (ITEMS // 2).to_bytes(4, "big") + b"\xc0" * (ITEMS // 2)),
    "many items in a kind": LIST(msgspec.msgpack.Ext(1, LIST(["set", [0] * ITEMS]))),
    "a claim of many items": b"\xdd\xff\xff\xff\xff",
    "a claim of many bytes": b"\xc6\xff\xff\xff\xffab",
    "a list as a key": b"\x81\x90\xc0",
    "a table as a key": b"\x81\x80\xc0",
    "a tuple as a key": b"\x81\xd4\x03\x90\xc0",
    "an extension that is longer than its content": b"\xc7\x02\x03\x90\xc0",
    "an extension that is shorter than its content": b"\xd4\x03\x91\xc0",
    "an extension with nothing in it": b"\xc7\x00\x03",
    "an extension of no end": b"\xc9\xff\xff\xff\xff\x03\x90",
    "a byte of no meaning": b"\xc1",
    "more behind": b"\xc0\xc0",
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_content_is_refused(name: str) -> None:
    with pytest.raises(DecodeError):
        check(HOSTILE[name])


def test_as_deep_as_it_may_be_passes() -> None:
    check(b"\x91" * LEVELS + b"\xc0")


def test_as_many_items_as_there_may_be_pass() -> None:
    check(b"\xdd" + (ITEMS - 1).to_bytes(4, "big") + b"\xc0" * (ITEMS - 1))


def test_an_extension_of_another_code_is_not_looked_into() -> None:
    check(b"\xd4\x02\xc1")
