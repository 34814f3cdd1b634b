from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import Any, cast

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pzc.protocol import bundle as bundles
from pzc.protocol import serializers
from pzc.protocol.bundle import Item, Mail, encode
from pzc.protocol.codec import Codec
from pzc.protocol.errors import DecodeError, LocalProtocolError, SerializeError, SerializerRefused
from pzc.protocol.frames import PZC00, Kind
from pzc.protocol.ids import MessageIds
from pzc.protocol.link_messages import COPIED, MAX_ITEMS, MAX_NUMBER

from tests.effort import many

decode = partial(bundles.decode, kind=Mail)

ITEM = ["value", 7, "", 1_700_000_000_000, "pickle", b"body"]

numbers = st.integers(0, MAX_NUMBER)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
made = st.builds(
    Mail,
    numbers,
    st.lists(
        st.builds(
            Item, names, numbers, st.text(st.characters(codec="utf-8"), max_size=40), numbers,
            st.sampled_from(["pickle", "json", "buffers"]), st.binary(max_size=100),
        ),
        max_size=8,
    ),
)  # fmt: skip


def raw(*items: object) -> bytes:
    return msgspec.msgpack.encode([1, list(items)])


def changed(**fields: object) -> bytes:
    """A bundle of one item with other fields than usual."""
    return raw([fields.get(name, usual) for name, usual in zip(Item.__struct_fields__, ITEM, strict=True)])


@given(made)
def test_a_bundle_comes_back_as_it_was(bundle: Mail) -> None:
    assert decode(encode(bundle)) == bundle


@given(made, st.integers(COPIED + 1, 2 * COPIED))
@settings(max_examples=many(20))
def test_a_large_bundle_comes_back_as_it_was(bundle: Mail, size: int) -> None:
    item = Item("x", 1, "", 2, "pickle", os.urandom(size))
    large = msgspec.structs.replace(bundle, items=[*bundle.items, item])
    assert decode(encode(large)) == large


@given(st.binary(max_size=200))
@example(b"\x92\x01" + b"\x91" * 100_000)
@example(b"\x92\x01\xdd\xff\xff\xff\xff")
@example(b"\x92\x01\x91\x99\xa1\xff")
@example(b"\x92\x01\xdc\xff\xff" + bytes(COPIED))
@example(bytes(COPIED + 1))
@example(b"\xff" * (COPIED + 1))
def test_whatever_is_received_is_a_bundle_or_a_decode_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        assert type(decode(data)) is Mail


@given(made, st.data())
def test_a_damaged_bundle_is_a_bundle_or_a_decode_error(bundle: Mail, data: st.DataObject) -> None:
    damaged = bytearray(encode(bundle))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at : data.draw(st.integers(at, len(damaged)))] = data.draw(st.binary(max_size=5))
    with contextlib.suppress(DecodeError):
        assert type(decode(damaged)) is Mail


def test_a_body_is_bytes_of_its_own_when_it_is_small_and_a_view_when_it_is_large() -> None:
    large, small = os.urandom(COPIED + 1), b"small"
    items = [Item("value", n, "", 0, "pickle", body) for n, body in enumerate((small, large, small))]
    one, two, three = (item.body for item in decode(encode(Mail(1, items))).items)
    assert (type(one), type(three)) == (bytes, bytes)
    assert isinstance(two, memoryview)
    assert two.readonly
    assert bytes(two) == large


@pytest.mark.parametrize("first", [1, 200, 60_000, 1 << 20, MAX_NUMBER])
@pytest.mark.parametrize(("count", "size"), [(3000, 100), (15, 20_000), (15, 1 << 16)])
def test_small_bodies_are_copies_however_many_come_together(first: int, count: int, size: int) -> None:
    bodies = [bytes([number & 255]) * size for number in range(count)]
    items = [Item("value", n, "", 0, "pickle", body) for n, body in enumerate(bodies)]
    data = bytearray(encode(Mail(first, items)))
    assert len(data) > COPIED
    found = decode(data)
    data[:] = bytes(len(data))
    assert [item.body for item in found.items] == bodies
    assert {type(item.body) for item in found.items} == {bytes}


def test_a_large_body_lies_where_the_bundle_was_received() -> None:
    data = bytearray(encode(Mail(1, [Item("value", 1, "", 0, "pickle", bytes(COPIED + 1))])))
    body = decode(data).items[0].body
    data[-10] = 9
    assert 9 in body


def test_a_view_is_encoded_as_its_bytes() -> None:
    item = Item("value", 1, "", 0, "pickle", memoryview(b"abcd").cast("H"))
    assert decode(encode(Mail(1, [item]))).items[0].body == b"abcd"


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": ""},
        {"topic": "x" * 2049},
        {"topic": b"bytes"},
        {"key": "x" * 2049},
        {"serializer": "x" * 33},
        {"number": -1},
        {"number": 1 << 53},
        {"number": 1.0},
        {"number": True},
        {"number": "1"},
        {"sent_ms": None},
        {"body": "text"},
        {"body": [1]},
    ],
)
def test_a_field_of_the_wrong_type_or_size_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(DecodeError):
        decode(changed(**fields))


def test_the_usual_fields_are_taken() -> None:
    assert decode(changed()) == Mail(1, [Item(*ITEM)])


def test_a_field_too_many_is_refused() -> None:
    for data in (raw([*ITEM, 1]), msgspec.msgpack.encode([1, [], 0, 0, 0, [], [], 1])):
        with pytest.raises(DecodeError, match="at most length"):
            decode(data)


def test_bytes_behind_a_bundle_are_refused() -> None:
    with pytest.raises(DecodeError):
        decode(raw() + b"\x00")


def test_items_have_a_bound() -> None:
    assert len(decode(raw(*[ITEM] * MAX_ITEMS)).items) == MAX_ITEMS
    with pytest.raises(DecodeError, match="length <= 10000"):
        decode(raw(*[ITEM] * (MAX_ITEMS + 1)))


@pytest.mark.parametrize(
    "content",
    [None, [[]], Mail(1, [Item("\ud800", 1, "", 0, "", b"")]), Mail(1, [cast(Any, object())])],
)
def test_what_has_no_bytes_is_a_serialize_error(content: object) -> None:
    with pytest.raises(SerializeError):
        serializers.encode("mail", content)


def test_a_body_with_holes_is_a_serialize_error() -> None:
    with pytest.raises(SerializeError, match="contiguous"):
        encode(Mail(1, [Item("value", 1, "", 0, "pickle", memoryview(b"abcdef")[::2])]))


def test_the_serializer_is_no_choice_for_contents() -> None:
    for name in ("json", "pickle"):
        assert "mail" not in serializers.default_accept(name)
    with pytest.raises(LocalProtocolError, match="no serializer is called 'mail'"):
        Codec(serializer="mail")
    with pytest.raises(LocalProtocolError):
        Codec(accept_serializers=["mail"])


@pytest.mark.parametrize("accepted", ["json", "msgpack", "pickle"])
def test_a_bundle_is_opened_by_whoever_accepts_whatever(accepted: str) -> None:
    codec, stamp = Codec(serializer=accepted, accept_serializers=[accepted]), MessageIds(1).next(5)
    bundle = Mail(1, [Item("value", 1, "", 0, "pickle", b"not decoded here")])
    frames = codec.encode("a" * 32, "", bundle, stamp=stamp, receiver="b", serializer="mail")
    assert codec.content(codec.open(frames, kind=Kind.REQUEST, receiver="b")) == bundle


def test_the_original_knows_no_bundles() -> None:
    codec = Codec(serializer="json")
    frames = codec.encode("tcp://x", "", Mail(1), msgid="1", serializer="mail", dialect=PZC00)
    with pytest.raises(SerializerRefused):
        codec.open(frames)


def test_a_struct_of_a_bundle_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Mail(1).items = []  # pyright: ignore[reportAttributeAccessIssue]
    assert MAX_NUMBER < 2**53
