"""What a sender may choose for one message, and that no choice shows to a receiver that was not asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pzc.protocol.codec import Codec
from pzc.protocol.ids import Stamp
from pzc.protocol.keyring import Keyring
from pzc.protocol.signing import LARGE, SUITES, Suite

from tests.protocol.messages import AGENT, EITHER_RING, IDS, NOW, PEER, PIZCO_ID, RING

IMAGE = np.arange(3 * LARGE, dtype="u1")


def encode(codec: Codec, content: object = "x", topic: str = "", **options: Any) -> list[Any]:
    return codec.encode(AGENT, topic, content, stamp=IDS.next(NOW), **options)


def code(frames: list[Any]) -> int:
    return frames[4][0]


# --- suite -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 2 * LARGE])
@pytest.mark.parametrize("name", SUITES)
def test_a_message_is_signed_with_the_suite_of_its_codec(name: str, size: int) -> None:
    codec = Codec(RING, seal=name == "aes256-gcm")
    frames = encode(codec, bytes(size), receiver=PEER)
    assert code(frames) == SUITES[name]
    assert codec.open(frames, receiver=PEER).decode() == bytes(size)


def test_a_receiver_that_announced_nothing_gets_the_suite_that_everybody_opens() -> None:
    codec = Codec(RING)
    for size in (0, 2 * LARGE):
        assert code(encode(codec, bytes(size), receiver=PEER)) == Suite.HMAC_SHA256


def test_a_suite_signs_nothing_without_key() -> None:
    assert encode(Codec(seal=True), receiver=PEER)[4] == b"\0" + PEER.encode()


def test_a_codec_names_the_suites_that_it_opens() -> None:
    assert Codec(RING).suites == ["hmac-sha256", "aes256-gcm"]
    assert Codec().suites == []


# --- stamp -------------------------------------------------------------------------------------------


def test_a_pzc00_message_has_the_id_of_its_stamp_or_the_one_it_answers() -> None:
    codec, stamp = Codec(RING, dialect="PZC00"), Stamp(NOW, 5, 7)
    assert codec.encode("tcp://h:1", "", 1, stamp=stamp)[3] == stamp.urn().encode()
    assert codec.encode("tcp://h:1", "", 1, stamp=stamp, msgid=PIZCO_ID)[3] == PIZCO_ID.encode()


# --- writable ----------------------------------------------------------------------------------------


@EITHER_RING
def test_arrays_in_writable_memory_are_writable_when_asked_for(ring: Keyring | None) -> None:
    codec = Codec(ring)
    frames = [bytes(frame) for frame in encode(codec, [IMAGE], serializer="arrays")]
    for memory in (bytearray(frames[2]), memoryview(bytearray(frames[2]))):
        envelope = codec.open([*frames[:2], memory, *frames[3:]])
        assert not envelope.decode()[0].flags.writeable
        (array,) = envelope.decode(writable=True)
        array[-1] = 99
        assert bytes(memory)[-1] == 99


@EITHER_RING
def test_arrays_in_received_bytes_are_copied_when_they_are_to_be_written(ring: Keyring | None) -> None:
    codec = Codec(ring)
    frames = [bytes(frame) for frame in encode(codec, [IMAGE], serializer="arrays")]
    assert not codec.open(frames).decode()[0].flags.writeable
    assert codec.open(frames).decode(writable=True)[0].flags.writeable


@pytest.mark.parametrize("serializer", ["arrays", "buffers"])
def test_an_array_that_was_read_only_when_sent_may_be_written(serializer: str) -> None:
    codec, image = Codec(RING), IMAGE.copy()
    image.flags.writeable = False
    frames = encode(codec, [image], serializer=serializer, receiver=PEER)
    envelope = codec.open([*frames[:2], bytearray(frames[2]), *frames[3:]], receiver=PEER)
    assert envelope.decode(writable=True)[0].flags.writeable
