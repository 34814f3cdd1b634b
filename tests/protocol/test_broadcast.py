"""What is broadcast the prepared way is, byte for byte, what the codec makes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.broadcast import Broadcast, is_usual
from pzc.protocol.codec import Codec
from pzc.protocol.errors import SerializeError
from pzc.protocol.frames import MAX_SEQUENCE
from pzc.protocol.ids import MessageIds
from pzc.protocol.keyring import Keyring
from pzc.protocol.signing import LARGE

SENDER = "ab" * 16
NOW = 1_700_000_000_000
CODECS = {
    "signed": Codec(Keyring.from_key("a long secret of lab")),
    "unsigned": Codec(),
    "json": Codec(Keyring.from_key("a long secret of lab"), serializer="json"),
    "told": Codec(Keyring.from_key("a long secret of lab"), suite="hmac-sha256"),
}


@given(
    st.sampled_from(sorted(CODECS)),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50),
    st.lists(st.tuples(st.integers(1, MAX_SEQUENCE), st.text(max_size=60)), min_size=1, max_size=5),
)
def test_the_frames_are_those_of_the_codec(name: str, topic: str, notes: list[tuple[int, str]]) -> None:
    codec, ours, theirs = CODECS[name], MessageIds(7, 11), MessageIds(7, 11)
    broadcast = Broadcast(codec, SENDER, topic, lambda: ours.next_urn(NOW))
    assert is_usual(codec, SENDER, topic)
    for number, content in notes:
        body = broadcast.encode(content)
        assert body is not None
        made = codec.encode(SENDER, topic, content, stamp=theirs.next(NOW), sequence=number)
        assert broadcast.frames(number, body) == made


def broadcast(codec: Codec) -> Broadcast:
    return Broadcast(codec, SENDER, "t", lambda: MessageIds(7).next_urn(NOW))


def test_what_the_codec_would_sign_in_another_way_is_not_encoded() -> None:
    made = broadcast(CODECS["signed"])
    assert made.encode(bytes(LARGE - 100)) is not None
    assert made.encode(bytes(LARGE + 1)) is None


def test_a_content_that_cannot_be_expressed_is_an_error() -> None:
    with pytest.raises(SerializeError):
        broadcast(CODECS["json"]).encode(object())


@pytest.mark.parametrize("options", [{"suite": "aes256-gmac"}, {"suite": "aes256-gcm"}])
def test_other_suites_are_not_usual(options: dict[str, Any]) -> None:
    assert not is_usual(Codec(Keyring.from_key("a long secret of lab"), **options), SENDER, "t")


def test_a_topic_that_leaves_no_room_for_numbers_is_not_usual() -> None:
    assert is_usual(CODECS["signed"], SENDER, "t" * 1_980)
    assert not is_usual(CODECS["signed"], SENDER, "t" * 2_000)
