"""The five frames of notifications: as the codec makes them, and made again out of what a mailbox sends."""

from __future__ import annotations

import hashlib
import hmac
import struct
from threading import Lock
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import serializers
from pzc.protocol.codec import Codec
from pzc.protocol.errors import LocalProtocolError, RemoteProtocolError
from pzc.protocol.frames import MAX_HEADER, Kind
from pzc.protocol.ids import MessageIds
from pzc.protocol.keyring import Keyring
from pzc.protocol.link_messages import Body, Row
from pzc.protocol.records import Frames, Opener, Record, Records
from pzc.protocol.signing import LARGE

SENDER = "ab" * 16
EPOCH = 0xBEEF
MS = 1_700_000_000_123
BODY = b"\xcb12345678"
SECRET = "a long secret of lab"
WAYS = ["hmac-sha256", "aes256-gcm", None, "unsigned", "long key"]
SUITES = pytest.mark.parametrize("suite", WAYS)
SIZES = pytest.mark.parametrize("size", [0, 10, LARGE - 100, LARGE, LARGE + 1, 300_000])
TOPICS = ["level", "µ", "a+b", "t" * 300]


def codec_of(suite: str | None) -> Codec:
    if suite == "unsigned":
        return Codec()
    key = Keyring.from_key("k" * 200 if suite == "long key" else SECRET)
    return Codec(key, seal=suite == "aes256-gcm", serializer="msgpack")


def records_of(codec: Codec, epoch: int = EPOCH) -> Records:
    return Records(codec, SENDER, MessageIds(epoch))


def opener_of(codec: Codec, **other: Any) -> Opener:
    key_id = "" if codec.keyring is None else codec.keyring.active.key_id
    return Opener(**{"sender": SENDER, "epoch": EPOCH, "key_id": key_id, **other})


def proven(
    records: Records, number: int = 1, key: str = "", body: bytes = BODY, topic: str = "level", ms: int = MS
) -> Row:
    """A row with the proof of its notification."""
    record = Record(topic, number, ms, key, "msgpack", body)
    records.seal(record, Lock())
    return record.proven


def sealed(records: Records, topic: str, number: int, key: str, ms: int, name: str, body: Body) -> Frames:
    """The frames of one notification."""
    record = Record(topic, number, ms, key, name, body)
    header = records.seal(record, Lock())
    assert header
    return record.frames(header)


@SUITES
@SIZES
@pytest.mark.parametrize("key", ["", "a b+ç"])
def test_frames_are_those_of_the_codec(suite: str | None, size: int, key: str) -> None:
    codec, theirs = codec_of(suite), MessageIds(EPOCH)
    records, body = records_of(codec), serializers.encode("msgpack", bytes(size))
    for number in (1, 2, 10**17):
        made = codec.encode(
            SENDER, "t", bytes(size), stamp=theirs.next(MS), sequence=number, key=key, serializer="msgpack"
        )
        assert list(map(bytes, sealed(records, "t", number, key, MS, "msgpack", body))) == list(
            map(bytes, made)
        )


@given(
    st.lists(
        st.tuples(st.sampled_from(TOPICS), st.integers(1, 10**17), st.text(max_size=5), st.integers(0, 9))
    )
)
def test_frames_are_those_of_the_codec_whatever_came_before(
    parts: list[tuple[str, int, str, int]],
) -> None:
    codec, theirs = codec_of(None), MessageIds(EPOCH)
    records = records_of(codec)
    for topic, number, key, late in parts:
        about = key.encode(errors="ignore").decode()
        made = codec.encode(
            SENDER, topic, key, stamp=theirs.next(MS + late), sequence=number, key=about, serializer="json"
        )
        assert list(sealed(records, topic, number, about, MS + late, "json", bytes(made[2]))) == made


def test_a_signature_covers_all_frames_and_their_lengths() -> None:
    codec = codec_of(None)
    assert codec.keyring is not None
    key = codec.keyring.active
    header, name, body, msgid, signature = sealed(records_of(codec), "level", 7, "", MS, "msgpack", BODY)
    assert (header, name, body) == (b"PZC01+" + SENDER.encode() + b"+level+7+", b"msgpack", BODY)
    lengths = struct.pack(">HHIIIQ", 8, 0, len(header), len(name), len(msgid), len(body))
    covered = b"PZC01\x03\x01" + lengths + key.key_id.encode() + header + name + msgid + body
    tag = hmac.digest(key.hmac_key, covered, hashlib.sha256)
    assert signature == b"\x01" + tag + key.key_id.encode()


def test_each_has_an_id_of_its_own() -> None:
    records = records_of(codec_of(None))
    assert len({proven(records).msgid for _ in range(100)}) == 100


@SUITES
@SIZES
def test_a_record_is_verified_as_a_broadcast_of_its_publisher(suite: str | None, size: int) -> None:
    codec = codec_of(suite)
    row = proven(records_of(codec), 7, "a b+c", bytes(size))
    envelope = codec.open(opener_of(codec).frames("level", row), kind=Kind.NOTIFICATION)
    assert (envelope.sender, envelope.topic, envelope.sequence, envelope.key) == (SENDER, "level", 7, "a b+c")
    assert (envelope.stamp and envelope.stamp.ms, envelope.epoch) == (MS, EPOCH)
    assert bytes(envelope.content) == bytes(size)
    assert (bytes(row.body) != bytes(size)) == (suite == "aes256-gcm" and size > 0)


def of_another_epoch(row: Row) -> Row:
    return msgspec.structs.replace(row, msgid=row.msgid[:-8] + b"00000001")


def of_another_time(row: Row) -> Row:
    return msgspec.structs.replace(row, sent_ms=row.sent_ms + 1)


def of_another_key(row: Row) -> Row:
    return msgspec.structs.replace(row, signature=row.signature[:-8] + b"00000000")


def without_frames(row: Row) -> Row:
    return msgspec.structs.replace(row, msgid=b"", signature=b"")


def with_a_short_tag(row: Row) -> Row:
    return msgspec.structs.replace(row, signature=row.signature[:1] + row.signature[2:])


def of_no_suite(row: Row) -> Row:
    return msgspec.structs.replace(row, signature=b"\x09" + row.signature[1:])


WRONG = [
    of_another_epoch, of_another_time, of_another_key, without_frames, with_a_short_tag, of_no_suite,
]  # fmt: skip


@pytest.mark.parametrize("spoil", WRONG)
def test_what_does_not_belong_together_is_refused(spoil: Any) -> None:
    codec = codec_of(None)
    good = proven(records_of(codec))
    with pytest.raises(RemoteProtocolError, match="message 1 of 'level'"):
        opener_of(codec).frames("level", spoil(good))


def test_a_signed_row_on_an_unsigned_link_is_refused() -> None:
    signed = proven(records_of(codec_of(None)))
    opener = opener_of(codec_of("unsigned"))
    with pytest.raises(RemoteProtocolError, match="signature of another key"):
        opener.frames("level", signed)


@pytest.mark.parametrize("about", [{"topic": "t" * 2040}, {"key": "k" * 2040}])
def test_what_fits_into_no_header_has_no_frames(about: dict[str, str]) -> None:
    row = proven(records_of(codec_of(None)), **about)  # type: ignore[arg-type]
    assert (row.msgid, row.signature, row.body) == (b"", b"", BODY)


def test_a_number_that_fits_behind_no_topic_is_refused() -> None:
    records, topic = records_of(codec_of(None)), "t" * (MAX_HEADER - len(f"PZC01+{SENDER}++1+"))
    assert len(sealed(records, topic, 1, "", MS, "msgpack", BODY)[0]) == MAX_HEADER
    with pytest.raises(LocalProtocolError, match="the limit is 2048"):
        records.header(topic, 10, "")
    assert records.seal(Record(topic, 10, MS, "", "msgpack", BODY), Lock()) == b""


@pytest.mark.parametrize("ms", [-1, 1 << 48])
def test_a_time_that_no_id_can_carry_has_no_proof(ms: int) -> None:
    assert proven(records_of(codec_of(None)), ms=ms).msgid == b""


@SUITES
def test_what_is_sealed_again_stays_the_same(suite: str | None) -> None:
    ids = MessageIds(EPOCH)
    records = Records(codec_of(suite), SENDER, ids)
    record = Record("level", 1, MS, "", "msgpack", BODY)
    header, before = records.seal(record, Lock()), record.proven
    assert records.seal(record, Lock()) == header
    assert record.proven == before
    assert ids.count() == 1
