"""Letters as bytes, made when they are published: what `Postmark` makes of the same, to the last byte of a frame."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import letters
from pzc.protocol.bundle import Item
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind
from pzc.protocol.franking import SMALL, Franking
from pzc.protocol.ids import MessageIds
from pzc.protocol.keyring import Keyring
from pzc.protocol.letters import Letter, Letters, item_of
from pzc.protocol.postmarks import Opener, Postmark

SENDER = "ab" * 16
EPOCH = 0xBEEF
MS = 1_700_000_000_123
SIGNED, UNSIGNED = Codec(Keyring.from_key("a long secret of lab")), Codec()
CODECS = pytest.mark.parametrize("codec", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])


def franking_of(codec: Codec, topic: str, serializer: str = "msgpack") -> Franking:
    return Franking(codec, SENDER, topic, serializer, MessageIds(EPOCH).next_urn)


def read(franked: bytes) -> Letter:
    return letters.decode(letters.encode(Letters(1, [msgspec.Raw(franked)]))).items[0]  # type: ignore[list-item]


@CODECS
@given(
    st.sampled_from(["level", "µ", "a+b", "t" * 300]),
    st.lists(st.tuples(st.integers(1, (1 << 53) - 1), st.integers(0, 5), st.sampled_from([0, 1, 9, 255, 256, SMALL]))),
)  # fmt: skip
def test_they_are_the_letters_of_a_postmark(
    codec: Codec, topic: str, parts: list[tuple[int, int, int]]
) -> None:
    franking = franking_of(codec, topic)
    postmark = Postmark(codec, SENDER, EPOCH, MessageIds(EPOCH).next_urn)
    for number, late, size in parts:
        item = Item(topic, number, "", MS + late, 0, "msgpack", bytes([number & 255]) * size)
        franked = franking.letter(number, MS + late, item.body)
        assert read(franked) == postmark.letter(item)
        assert item_of(franked) == item
        assert type(item_of(franked)) is Item


@CODECS
def test_they_are_verified_as_broadcasts_of_their_publisher(codec: Codec) -> None:
    key_id = "" if codec.keyring is None else codec.keyring.active.key_id
    frames = Opener(SENDER, EPOCH, key_id).frames(read(franking_of(codec, "level").letter(7, MS, b"\xc3")))
    envelope = codec.open(frames, kind=Kind.NOTIFICATION)
    assert (envelope.sender, envelope.topic, envelope.sequence, envelope.epoch) == (SENDER, "level", 7, EPOCH)
    assert (envelope.sent_ms, envelope.serializer, bytes(envelope.content)) == (MS, "msgpack", b"\xc3")


def test_each_has_an_id_of_its_own() -> None:
    franking = franking_of(SIGNED, "level")
    assert len({read(franking.letter(1, MS, b"")).msgid for _ in range(100)}) == 100
