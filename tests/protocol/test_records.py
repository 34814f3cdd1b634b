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

from pzc.protocol import serializers, signing
from pzc.protocol.codec import Codec
from pzc.protocol.errors import LocalProtocolError, RemoteProtocolError
from pzc.protocol.frames import MAX_HEADER, Kind
from pzc.protocol.ids import MessageIds, Stamp
from pzc.protocol.keyring import Keyring
from pzc.protocol.link_messages import Body, Row
from pzc.protocol.proofs import TagProver
from pzc.protocol.records import Frames, Opener, Record, Records, size_beside
from pzc.protocol.signing import LARGE, Suite

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
    records.seal([record], Lock())
    return record.proven


def sealed(records: Records, topic: str, number: int, key: str, ms: int, name: str, body: Body) -> Frames:
    """The frames of one notification."""
    record = Record(topic, number, ms, key, name, body)
    [header] = records.seal([record], Lock())
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


@SUITES
@given(
    st.lists(
        st.tuples(st.sampled_from(["", "a b", "k" * 2040]), st.integers(0, 300), st.booleans()), max_size=6
    )
)
def test_many_of_several_kinds_are_each_sealed(suite: str | None, parts: list[tuple[str, int, bool]]) -> None:
    codec = codec_of(suite)
    records = [
        Record("level", 10**at, MS + at, key, "msgpack" if packed else "json", bytes(size * size))
        for at, (key, size, packed) in enumerate(parts)
    ]
    headers = records_of(codec).seal(records, Lock())
    assert [bool(header) for header in headers] == [len(each.key) < 2000 for each in records]
    for record, header in zip(records, headers, strict=True):
        if header:
            message = codec.open(record.frames(header), kind=Kind.NOTIFICATION)
            assert (message.sequence, message.key, bytes(message.content)) == (
                record.number, record.key, record.body,
            )  # fmt: skip
    sealed = [each.msgid for each in records if each.msgid]
    assert len(set(sealed)) == len(sealed)


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


@SUITES
@given(st.lists(st.tuples(st.text(max_size=5), st.sampled_from(TOPICS), st.integers(0, 3)), max_size=6))
def test_many_headers_are_those_of_each(suite: str | None, parts: list[tuple[str, str, int]]) -> None:
    codec = codec_of(suite)
    records, opener = records_of(codec), opener_of(codec)
    keys = [(key.encode(errors="ignore").decode(), topic, late) for key, topic, late in parts]
    topics = [topic for _, topic, _ in keys]
    made = [proven(records, n, key, topic=topic, ms=MS + late) for n, (key, topic, late) in enumerate(keys)]
    found = opener.headers(topics, made) if made else []
    assert found == [opener.frames(topic, row)[0] for topic, row in zip(topics, made, strict=True)]


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
def test_what_does_not_belong_together_is_refused_alone_and_among_others(spoil: Any) -> None:
    codec = codec_of(None)
    good, topics = proven(records_of(codec)), ["level"] * 2
    with pytest.raises(RemoteProtocolError, match="message 1 of 'level'"):
        opener_of(codec).frames("level", spoil(good))
    assert opener_of(codec).headers(topics, [good, spoil(good)]) is None
    assert opener_of(codec).headers(topics, [good, good]) is not None


def test_a_signed_row_on_an_unsigned_link_is_refused() -> None:
    signed = proven(records_of(codec_of(None)))
    opener = opener_of(codec_of("unsigned"))
    with pytest.raises(RemoteProtocolError, match="signature of another key"):
        opener.frames("level", signed)
    assert opener.headers(["level"], [signed]) is None


@pytest.mark.parametrize("about", [{"topic": "t" * 2040}, {"key": "k" * 2040}])
def test_what_fits_into_no_header_has_no_frames(about: dict[str, str]) -> None:
    row = proven(records_of(codec_of(None)), **about)  # type: ignore[arg-type]
    assert (row.msgid, row.signature, row.body) == (b"", b"", BODY)


def test_a_number_that_fits_behind_no_topic_is_refused() -> None:
    records, topic = records_of(codec_of(None)), "t" * (MAX_HEADER - len(f"PZC01+{SENDER}++1+"))
    assert len(sealed(records, topic, 1, "", MS, "msgpack", BODY)[0]) == MAX_HEADER
    records.check(topic, 1, "", "msgpack")
    with pytest.raises(LocalProtocolError, match="the limit is 2048"):
        records.check(topic, 10, "", "msgpack")
    assert records.seal([Record(topic, 10, MS, "", "msgpack", BODY)], Lock()) == [b""]


@given(st.text(max_size=200), st.text(max_size=200), st.integers(1, 10**17))
def test_what_was_judged_to_fit_has_frames(topic: str, key: str, number: int) -> None:
    records = records_of(codec_of(None))
    try:
        records.check(topic, number, key, "msgpack")
    except LocalProtocolError:
        return
    [header] = records.seal([Record(topic, number, MS, key, "msgpack", BODY)], Lock())
    assert header


def test_those_of_one_go_on_to_be_the_same() -> None:
    ids = MessageIds(EPOCH)
    records = Records(codec_of(None), SENDER, ids)
    first, second = (Record("level", number, MS, "", "msgpack", BODY) for number in (1, 2))
    records.seal([first], Lock())
    before = first.proven
    records.seal([first, second], Lock())
    assert first.proven == before
    assert second.msgid != first.msgid
    assert ids.count() == 2  # nothing was sealed twice


@SUITES
def test_the_bounds_of_a_mailbox_count_at_least_the_frames(suite: str | None) -> None:
    codec = codec_of(suite)
    row = proven(records_of(codec), 10**15, "käse", topic="t" * 50)
    frames = opener_of(codec).frames("t" * 50, row)
    assert sum(map(len, frames)) - len(frames[2]) <= size_beside("t" * 50, "käse")


@given(
    st.binary(max_size=70), st.lists(st.tuples(st.binary(max_size=70), st.binary(max_size=70)), max_size=4)
)
def test_tags_are_those_of_the_sealer_whatever_the_lengths(
    name: bytes, frames: list[tuple[bytes, bytes]]
) -> None:
    key = Keyring.from_key("a long secret of lab").active
    tags, sealer = (
        TagProver(key, MessageIds(7)),
        signing.sealer(key, Suite.HMAC_SHA256, Kind.NOTIFICATION, "ab", "", 7),
    )
    headers, contents = [header for header, _ in frames], [content for _, content in frames]
    for header, content, proof in zip(
        headers, contents, tags.of(name, headers, [MS] * len(frames), [*contents]), strict=True
    ):
        assert proof is not None
        _, signature, msgid = proof
        tag, _ = sealer.seal(Stamp(0, 0, 7), header, name, msgid, content)
        assert signature == tag.join(sealer.mark)


def test_a_time_that_no_id_can_carry_has_no_proof() -> None:
    tags = TagProver(Keyring.from_key("a long secret of lab").active, MessageIds(7))
    proofs = tags.of(b"json", [b"h"] * 3, [-1, MS, 1 << 48], [b"1"] * 3)
    assert [proof is not None for proof in proofs] == [False, True, False]
