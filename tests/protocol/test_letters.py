"""Letters: the five frames of a notification, as they would be broadcast, out of what a mailbox sends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import letters
from pzc.protocol.bundle import Item
from pzc.protocol.codec import Codec
from pzc.protocol.errors import DecodeError, RemoteProtocolError, SerializeError
from pzc.protocol.frames import Kind
from pzc.protocol.ids import MessageIds
from pzc.protocol.keyring import Keyring
from pzc.protocol.letters import Letter, Letters, size_beside
from pzc.protocol.postmarks import Opener, Postmark

SENDER = "ab" * 16
EPOCH = 0xBEEF
MS = 1_700_000_000_123
BODY = b"\xcb12345678"

SUITES = pytest.mark.parametrize("suite", ["hmac-sha256", "aes256-gmac", "aes256-gcm", None, "unsigned"])


def codec_of(suite: str | None) -> Codec:
    return Codec() if suite == "unsigned" else Codec(Keyring.from_key("a long secret of lab"), suite=suite)


def postmark_of(codec: Codec, epoch: int = EPOCH) -> Postmark:
    return Postmark(codec, SENDER, epoch, MessageIds(epoch).next_urn)


def opener_of(codec: Codec, **other: Any) -> Opener:
    key_id = "" if codec.keyring is None else codec.keyring.active.key_id
    return Opener(**{"sender": SENDER, "epoch": EPOCH, "key_id": key_id, **other})


def an_item(number: int = 1, key: str = "", body: bytes = BODY, topic: str = "level", ms: int = MS) -> Item:
    return Item(topic, number, key, ms, 0, "msgpack", body)


@SUITES
@pytest.mark.parametrize("size", [0, 10, 1 << 16, (1 << 16) + 1, 300_000])
def test_a_letter_is_verified_as_a_broadcast_of_its_publisher(suite: str | None, size: int) -> None:
    codec = codec_of(suite)
    letter = postmark_of(codec).letter(an_item(7, "a b+c", bytes(size)))
    envelope = codec.open(opener_of(codec).frames(letter), kind=Kind.NOTIFICATION)
    assert (envelope.sender, envelope.topic, envelope.sequence, envelope.key) == (SENDER, "level", 7, "a b+c")
    assert (envelope.stamp and envelope.stamp.ms, envelope.epoch) == (MS, EPOCH)
    assert bytes(envelope.content) == bytes(size)
    assert letter.sealed == (suite == "aes256-gcm")


@SUITES
@pytest.mark.parametrize("size", [10, 300_000])
def test_letters_come_back_from_bytes_as_they_were(suite: str | None, size: int) -> None:
    postmark = postmark_of(codec_of(suite))
    made = [postmark.letter(an_item(n, body=bytes(size))) for n in (1, 2)]
    found = letters.decode(letters.encode(Letters(5, made, epoch=EPOCH, tenure=2, after=4)))
    assert (found.first, found.epoch, found.tenure, found.after) == (5, EPOCH, 2, 4)
    for before, after in zip(made, found.items, strict=True):
        assert (after.topic, after.number, bytes(after.body)) == ("level", before.number, bytes(before.body))
        assert (after.msgid, after.signature) == (before.msgid, before.signature)


@SUITES
@given(
    st.lists(
        st.tuples(st.text(max_size=5), st.sampled_from(["level", "µ", "a+b"]), st.integers(0, 3)), max_size=6
    )
)
def test_many_headers_are_those_of_each(suite: str | None, parts: list[tuple[str, str, int]]) -> None:
    codec = codec_of(suite)
    postmark, opener = postmark_of(codec), opener_of(codec)
    keys = [(key.encode(errors="ignore").decode(), topic, late) for key, topic, late in parts]
    made = [
        postmark.letter(an_item(n, key, topic=topic, ms=MS + late))
        for n, (key, topic, late) in enumerate(keys)
    ]
    found = opener.headers(made) if made else []
    assert found == [opener.frames(letter)[0] for letter in made]


def of_another_epoch(letter: Letter) -> Letter:
    return msgspec.structs.replace(letter, msgid=letter.msgid[:-8] + b"00000001")


def of_another_time(letter: Letter) -> Letter:
    return msgspec.structs.replace(letter, sent_ms=letter.sent_ms + 1)


def of_another_key(letter: Letter) -> Letter:
    return msgspec.structs.replace(letter, signature=letter.signature[:-8] + b"00000000")


def without_frames(letter: Letter) -> Letter:
    return msgspec.structs.replace(letter, msgid=b"", signature=b"")


def with_a_short_tag(letter: Letter) -> Letter:
    return msgspec.structs.replace(letter, signature=letter.signature[:1] + letter.signature[2:])


def plain(letter: Letter) -> Item:
    return an_item(letter.number)


WRONG = [of_another_epoch, of_another_time, of_another_key, without_frames, with_a_short_tag, plain]


@pytest.mark.parametrize("spoil", WRONG)
def test_what_does_not_belong_together_is_refused_alone_and_among_others(spoil: Any) -> None:
    codec = codec_of(None)
    good = postmark_of(codec).letter(an_item())
    with pytest.raises(RemoteProtocolError, match="message 1 of 'level'"):
        opener_of(codec).frames(spoil(good))
    assert opener_of(codec).headers([good, spoil(good)]) is None
    assert opener_of(codec).headers([good, good]) is not None


def test_a_signed_letter_on_an_unsigned_line_is_refused() -> None:
    signed = postmark_of(codec_of(None)).letter(an_item())
    opener = opener_of(codec_of("unsigned"))
    with pytest.raises(RemoteProtocolError, match="signature of another key"):
        opener.frames(signed)
    assert opener.headers([signed]) is None


@pytest.mark.parametrize("item", [an_item(topic="t" * 2040), an_item(key="k" * 2040)])
def test_what_fits_into_no_header_has_no_frames(item: Item) -> None:
    letter = postmark_of(codec_of(None)).letter(item)
    assert (letter.msgid, letter.signature, letter.number) == (b"", b"", 1)


@SUITES
def test_the_bounds_of_a_mailbox_count_at_least_the_frames(suite: str | None) -> None:
    codec = codec_of(suite)
    frames = opener_of(codec).frames(postmark_of(codec).letter(an_item(10**15, "käse", topic="t" * 50)))
    assert sum(map(len, frames)) - len(frames[2]) <= size_beside("t" * 50, "käse")


def test_bytes_that_are_no_letters_are_refused() -> None:
    block = Letter("t", 1, "", MS, 0, "json", b"", 3, 10)
    whole = letters.encode(Letters(1, [postmark_of(codec_of(None)).letter(an_item())]))
    for wrong in (b"", b"\xc1", whole[:-1], whole + b"\0", letters.encode(Letters(1, [block]))):
        with pytest.raises(DecodeError):
            letters.decode(wrong)
    with pytest.raises(SerializeError):
        letters.encode([1])
