"""Link messages: they come back as they were, and nothing else is taken for one."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pzc.protocol import serializers
from pzc.protocol.codec import Codec
from pzc.protocol.errors import DecodeError, LocalProtocolError, SerializeError
from pzc.protocol.frames import MAX_CONTENT
from pzc.protocol.link_codec import decode, encode
from pzc.protocol.link_messages import (
    MAX_BLOCK,
    MAX_HOLD,
    MAX_ITEMS,
    MAX_NAME,
    MAX_NUMBER,
    Command,
    Ended,
    Interests,
    LinkMessage,
    Loss,
    Notify,
    Open,
    Opened,
    Report,
    Row,
    Run,
)

ROW = [7, 1_700_000_000_000, "", "pickle", b"body"]

numbers = st.integers(0, MAX_NUMBER)
texts = st.text(st.characters(codec="utf-8"), max_size=40)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
inline = st.builds(Row, numbers, numbers, texts, st.sampled_from(["pickle", "json"]), st.binary(max_size=100))
in_block = st.builds(
    Row, numbers, numbers, texts, st.just("buffers"), st.just(b""), st.integers(1, MAX_BLOCK),
    st.integers(0, MAX_CONTENT),
)  # fmt: skip
signed = st.builds(
    Row, numbers, numbers, texts, st.just("json"), st.binary(max_size=100), msgid=st.binary(max_size=60),
    signature=st.binary(max_size=60),
)  # fmt: skip
rows = st.lists(inline | in_block | signed, max_size=8)
runs = st.builds(Run, names, st.lists(numbers, max_size=4), rows)
made = st.builds(
    Notify, numbers, st.lists(runs, max_size=4), st.lists(st.builds(Loss, numbers, names, numbers, numbers)),
    st.lists(st.builds(Ended, numbers, texts), max_size=3), st.integers(0, MAX_BLOCK),
    st.lists(st.integers(0, MAX_BLOCK), max_size=4), st.booleans(), st.dictionaries(texts, texts, max_size=3),
)  # fmt: skip


def raw(*rows: object, first: object = 1, topic: object = "t", interests: object = (1,)) -> bytes:
    return msgspec.msgpack.encode([6, first, [[topic, interests, list(rows)]]])


@given(made)
def test_a_message_comes_back_as_it_was(notify: Notify) -> None:
    assert decode(encode(notify)) == notify


def test_a_large_message_comes_back_as_it_was() -> None:
    large = Notify(
        1, [Run("x", [1], [Row(1, 2, "", "pickle", bytes(1 << 20)), Row(2, 3, "", "pickle", b"")])]
    )
    assert decode(encode(large)) == large


@given(st.binary(max_size=200))
@example(b"\x93\x06\x01" + b"\x91" * 100_000)
@example(b"\x93\x06\x01\xdd\xff\xff\xff\xff")
def test_other_bytes_are_refused_with_one_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        decode(data)


@given(made, st.data())
def test_a_message_that_was_cut_is_refused(notify: Notify, data: Any) -> None:
    whole = encode(notify)
    with pytest.raises(DecodeError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@pytest.mark.parametrize(
    "data",
    [
        raw(ROW, first=-1),
        raw(ROW, first=MAX_NUMBER + 1),
        raw(ROW, topic=""),
        raw(ROW, topic="t" * 3000),
        raw(ROW, interests=["1"]),
        raw(ROW, interests=[1] * (MAX_ITEMS + 1)),
        raw(ROW[:4]),
        raw([*ROW, 0, 0, b"", b"", b""]),
        raw([*ROW, 0, 0, b"i" * 200]),
        raw([-1, *ROW[1:]]),
        raw([*ROW[:4], "text"]),
        raw([*ROW, 1, 5]),
        raw([*ROW[:4], b"", 0, 5]),
        raw([*ROW, 0, 5]),
        raw([*ROW[:4], b"", MAX_BLOCK + 1, 5]),
        msgspec.msgpack.encode([6, 1, [], [[1, "t", 1]]]),
        msgspec.msgpack.encode([6, 1, [], [], [[1]]]),
        msgspec.msgpack.encode([6, 1, [], [], [], 0, [], False, {}, 1]),
        msgspec.msgpack.encode([1, "0" * 32, 0, "tcp", "n" * (MAX_NAME + 1)]),
        msgspec.msgpack.encode(
            [3, "0" * 32, 1, [[1, "t", None, "mailbox", 1, None, None, "", "", False, 0]]]
        ),
        msgspec.msgpack.encode([5, "0" * 32, 1, 1, [], MAX_HOLD + 1]),
        msgspec.msgpack.encode([5, "0" * 32, 1, 1, [], float("nan")]),
        msgspec.msgpack.encode({"first": 1}),
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


@pytest.mark.parametrize("content", [None, [1], {"first": 1}, Loss(1, "t", 1, 1)])
def test_nothing_else_is_encoded_as_one(content: object) -> None:
    with pytest.raises(SerializeError):
        encode(content)


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (Open("0" * 32, 5, "tcp", "n", 3), [1, "0" * 32, 5, "tcp", "n", 3]),
        (Open("0" * 32), [1, "0" * 32, 0, "tcp", None, 0]),
        (Opened(7, 3), [2, 7, 3]),
        (Report("0" * 32, 9, 8, [4], 0.5, 109), [5, "0" * 32, 9, 8, [4], 0.5, 109]),
        (
            Interests("0" * 32, 1, [Command(
                2, "t", None, "mailbox", 10, max_bytes=99, when_full="block", keep=7.5, raw=True
            )]),
            [3, "0" * 32, 1, [
                [2, "t", None, "mailbox", 10, None, "", "", False, 99, "block", 7.5, True]
            ]],
        ),
        (
            Notify(1, [Run("t", [2], [Row(*ROW, msgid=b"i", signature=b"s")])]),
            [6, 1, [["t", [2], [[*ROW, 0, 0, b"i", b"s"]]]], [], [], 0, [], False, {}],
        ),
    ],
)  # fmt: skip
def test_what_a_mailbox_needs_has_its_place_in_the_arrays(message: LinkMessage, fields: list[object]) -> None:
    assert msgspec.msgpack.decode(encode(message)) == fields
    assert decode(msgspec.msgpack.encode(fields)) == message


def test_no_content_is_sent_as_a_link_message() -> None:
    with pytest.raises(LocalProtocolError):
        Codec(serializer="link")
    assert "link" not in serializers.default_accept("pickle")
