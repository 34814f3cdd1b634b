"""The shorter way of rows that resemble one another ends as the codec's judgement of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pzc import Notification
from pzc.pipeline.decoding.decode import Decoder, make_decoder
from pzc.protocol.errors import PzcError
from pzc.protocol.frames import PZC00
from pzc.protocol.keyring import Key, Keyring

from tests.pipeline.test_decode import batch

LAB = Key("a key of the lab", name="a key of the lab")
KEYS = Keyring(
    [LAB, Key("a long secret of other", name="other"), Key("x" * 100, name="long")],
    active=LAB,
)


def one_by_one(decoder: Decoder, rows: Sequence[Notification]) -> list[dict[str, Any]]:
    """Each row by a decoder that has seen none before."""
    return [make_decoder(decoder.keyring).decode(batch([row])).to_pylist()[0] for row in rows]


def agree(decoder: Decoder, rows: Sequence[Notification]) -> list[dict[str, Any]]:
    """What the decoder says of all rows together, which is what is said of each alone."""
    together = decoder.decode(batch(rows)).to_pylist()
    alone = one_by_one(decoder, rows)
    for row, other in zip(together, alone, strict=True):
        del row["offset"], other["offset"]
        assert repr(row) == repr(other)  # not-a-number is equal to itself here
    return together


CONTENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=5,
)


@given(data=st.data())
def test_what_is_read_together_is_what_each_says_alone(make_sender: Any, data: st.DataObject) -> None:
    serializer = data.draw(st.sampled_from(["msgpack", "json", "pickle", "pickle2", "arrays"]))
    contents = data.draw(st.lists(CONTENTS, min_size=2, max_size=5))
    sender = make_sender()
    rows = []
    for number, content in enumerate(contents):
        try:
            key = data.draw(st.sampled_from(["", "a b", "ä+%"]))
            rows.append(sender.row("v", content, number, key=key, serializer=serializer))
        except (PzcError, UnicodeError):  # what the serializer cannot express was never sent
            continue
    agree(make_decoder("a key of the lab"), rows)


@given(data=st.data())
def test_one_changed_byte_among_good_rows_ends_as_alone(make_sender: Any, data: st.DataObject) -> None:
    seal = data.draw(st.booleans())
    rows = make_sender(seal=seal).rows("v", [1.5, 2.5, 3.5], 1)
    number, frame = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 4))
    frames = list(rows[number].frames)
    changed = bytearray(frames[frame])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    frames[frame] = bytes(changed)
    rows[number] = replace(rows[number], frames=frames)
    found = agree(make_decoder("a key of the lab"), rows)
    assert [row["error"] is not None for row in found] == [i == number for i in range(3)]


def swapped(rows: list[Notification], frame: int) -> list[Notification]:
    """The second row with one frame of the third."""
    frames = list(rows[1].frames)
    frames[frame] = rows[2].frames[frame]
    return [rows[0], replace(rows[1], frames=frames), rows[2]]


@pytest.mark.parametrize("frame", [0, 2, 3, 4])
@pytest.mark.parametrize("seal", [False, True])
def test_a_frame_of_another_row_of_the_series_is_refused(make_sender: Any, frame: int, seal: bool) -> None:
    rows = swapped(make_sender(seal=seal).rows("v", [1.5, 2.5, 3.5], 1), frame)
    assert [row["error"] for row in agree(make_decoder("a key of the lab"), rows)] == [
        None,
        "SignatureError",
        None,
    ]


@pytest.mark.parametrize(
    ("frame", "forged"),
    [
        (0, b"PZC01+a+v+01+"),
        (0, b"PZC01+a+v"),
        (0, b"x" * 3000),
        (1, b"nothing"),
        (2, b""),
        (3, b"urn:uuid:" + b"g" * 36),
        (3, b"\xff" * 45),
        (4, b""),
        (4, b"\x00"),
        (4, b"\x09" + b"x" * 40),
        (4, b"\x01" + b"x" * 40),
    ],
)
def test_a_forged_frame_among_good_rows_ends_as_alone(sender: Any, frame: int, forged: bytes) -> None:
    rows = sender.rows("v", [1.5, 2.5, 3.5], 1)
    frames = list(rows[1].frames)
    frames[frame] = forged
    rows[1] = replace(rows[1], frames=frames)
    assert [bool(row["error"]) for row in agree(make_decoder("a key of the lab"), rows)] == [
        False,
        True,
        False,
    ]


def test_a_truncated_tag_is_refused(sender: Any) -> None:
    rows = sender.rows("v", [1.5, 2.5], 1)
    frames = list(rows[1].frames)
    frames[4] = frames[4][:-1]
    rows[1] = replace(rows[1], frames=frames)
    assert agree(make_decoder("a key of the lab"), rows)[1]["error"] == "SignatureError"


def test_many_senders_epochs_keys_suites_and_dialects_are_kept_apart(make_sender: Any) -> None:
    senders = [
        make_sender("a"), make_sender("a", epoch=8), make_sender("b", secret="a long secret of other"), make_sender("c", secret=None),
        make_sender("d", seal=True), make_sender("e", seal=False), make_sender("f", dialect=PZC00),
        make_sender("g", secret="x" * 100), make_sender("h", secret="a long secret of nobody"), make_sender("a", serializer="json"),
    ]  # fmt: skip
    rows = [sender.row("v", float(i), i) for i in range(3) for sender in senders]
    found = agree(make_decoder(KEYS), rows)
    assert {row["user"] for row in found} >= {"a key of the lab", "other", "long", None}
    assert sum(row["error"] is not None for row in found) == 6


def test_an_unsigned_series_is_read_without_a_key(make_sender: Any) -> None:
    rows = make_sender(secret=None).rows("v", [1.0, 2.0, 3.0], 1)
    assert [row["value_double"] for row in agree(make_decoder(None), rows)] == [1.0, 2.0, 3.0]


# --- attacks ----------------------------------------------------------------------------------------

ATTACKS = {
    "call": b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
    "old call": b"cposix\nsystem\n(S'true'\ntR.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent": b"\x80\x02NQ.",
    "frame": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.",
    "no stop": b"\x80\x05K\x01",
    "empty stack": b"\x80\x05.",
    "trailing": b"\x80\x05K\x01.K\x02.",
    "none": b"",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_that_is_signed_ends_as_alone_and_harms_no_other(make_sender: Any, attack: bytes) -> None:
    sender = make_sender(serializer="pickle")
    rows = sender.row("v", 1.5, 1), sender.sealed("v", attack, 2), sender.row("v", 2.5, 3)
    assert rows[1].frames[2] == attack
    found = agree(make_decoder("a key of the lab"), rows)
    assert [row["value_double"] for row in found] == [1.5, None, 2.5]
    assert found[1]["error"] in ("DecodeError", "SerializerRefused")
