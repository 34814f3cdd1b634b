"""Freshness and replay: a message is accepted once, and only near its time."""

from __future__ import annotations

import pytest

from pzc.protocol.codec import FRESH_MS, Codec
from pzc.protocol.errors import ReplayedMessage, SignatureError, StaleMessage
from pzc.protocol.ids import MessageIds
from pzc.protocol.keyring import Key, Keyring
from pzc.protocol.window import ReplayWindow, SeenSignatures

from tests.protocol.messages import EVERY_SUITE, IDS, NOW, RING, encode, pizco, spoiled


@pytest.mark.parametrize("offset", [0, 600_000, -600_000])
@pytest.mark.parametrize(
    ("age", "stale"),
    [(FRESH_MS, False), (FRESH_MS + 1, True), (-FRESH_MS, False), (-FRESH_MS - 1, True)],
)
def test_a_message_is_fresh_within_thirty_seconds_of_the_senders_clock(
    age: int, offset: int, stale: bool
) -> None:
    codec = Codec(RING)
    frames, now_ms = encode(codec), NOW + age - offset
    if stale:
        with pytest.raises(StaleMessage, match=r"30.0 s (old|ahead), the limit is 30 s; compare the clocks"):
            codec.open(frames, now_ms=now_ms, offset_ms=offset)
    else:
        assert codec.open(frames, now_ms=now_ms, offset_ms=offset)


def test_freshness_is_thirty_seconds() -> None:
    assert FRESH_MS == 30_000


def test_without_a_time_freshness_is_not_judged() -> None:
    codec = Codec(RING)
    assert codec.open(encode(codec, msgid=MessageIds(1).next_urn(0)))


def test_the_freshness_of_a_reply_is_that_of_its_own_id() -> None:
    codec = Codec(RING)
    old = MessageIds(1).next_urn(0)
    assert codec.open(encode(codec, msgid=old, own_id=IDS.next(NOW).hex()), now_ms=NOW)
    with pytest.raises(StaleMessage):
        codec.open(encode(codec, msgid=IDS.next_urn(NOW), own_id=IDS.next(0).hex()), now_ms=NOW)


@EVERY_SUITE
def test_a_signed_message_is_accepted_once(suite: str) -> None:
    codec, window = Codec(RING, seal=suite == "aes256-gcm"), ReplayWindow()
    frames = encode(codec)
    codec.open(frames, window=window)
    with pytest.raises(ReplayedMessage):
        codec.open(frames, window=window)


def test_a_signed_pzc00_message_is_accepted_once() -> None:
    codec, seen = Codec(RING), SeenSignatures()
    frames = pizco(codec)
    codec.open(frames, seen=seen)
    with pytest.raises(ReplayedMessage):
        codec.open(frames, seen=seen)
    assert codec.open(pizco(codec, "y"), seen=seen)


def test_a_forged_message_does_not_spend_the_id_of_the_real_one() -> None:
    codec, window, seen = Codec(RING), ReplayWindow(), SeenSignatures()
    for frames in (encode(codec), pizco(codec)):
        with pytest.raises(SignatureError):
            codec.open(spoiled(frames), window=window, seen=seen)
        assert codec.open(frames, window=window, seen=seen)


def test_a_stale_message_does_not_spend_its_id() -> None:
    codec, window = Codec(RING), ReplayWindow()
    frames = encode(codec)
    with pytest.raises(StaleMessage):
        codec.open(frames, now_ms=0, window=window)
    assert codec.open(frames, now_ms=NOW, window=window)


def test_an_unsigned_message_is_neither_judged_by_time_nor_remembered() -> None:
    codec, window, seen = Codec(), ReplayWindow(), SeenSignatures()
    for frames in (encode(codec), pizco(codec)):
        for _ in range(2):
            assert codec.open(frames, now_ms=0, window=window, seen=seen)
    assert not len(window)


def test_the_holder_of_one_key_cannot_spend_the_ids_of_another() -> None:
    alice, eve = Key("a long secret of alice"), Key("a long secret of eve")
    receiver, window = Codec(Keyring([alice, eve], alice)), ReplayWindow()
    msgid = IDS.next_urn(NOW)
    for key in (eve, alice):
        assert receiver.open(encode(Codec(Keyring([key])), msgid=msgid), window=window).signer is not None
    with pytest.raises(ReplayedMessage):
        receiver.open(encode(Codec(Keyring([alice])), msgid=msgid), window=window)
