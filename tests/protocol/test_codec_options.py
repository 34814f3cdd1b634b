"""What a sender may choose for one message, and that no choice shows to a receiver that was not asked."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.codec import Codec
from pzc.protocol.errors import ConfigError, LocalProtocolError, SerializeError, SignatureError
from pzc.protocol.frames import Kind
from pzc.protocol.ids import Stamp
from pzc.protocol.keyring import Keyring
from pzc.protocol.signing import LARGE, SUITES, Suite

from tests.protocol.messages import AGENT, EITHER_RING, IDS, NOW, PEER, PIZCO_ID, RING

IMAGE = np.arange(3 * LARGE, dtype="u1")


def encode(codec: Codec, content: object = "x", topic: str = "", **options: Any) -> list[Any]:
    return codec.encode(AGENT, topic, content, **{"msgid": IDS.next_urn(NOW), **options})


def code(frames: list[Any]) -> int:
    return frames[4][0]


# --- suite -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 2 * LARGE])
@pytest.mark.parametrize("name", SUITES)
def test_a_message_is_signed_with_the_suite_that_it_is_given(name: str, size: int) -> None:
    codec = Codec(RING)
    for suite in (name, SUITES[name]):
        frames = encode(codec, bytes(size), suite=suite, receiver=PEER)
        assert code(frames) == SUITES[name]
        assert codec.content(codec.open(frames, receiver=PEER)) == bytes(size)


@pytest.mark.parametrize("size", [0, 2 * LARGE])
def test_the_suite_that_the_user_chose_for_all_messages_wins(size: int) -> None:
    codec = Codec(RING, suite="aes256-gcm")
    assert code(encode(codec, bytes(size), suite="aes256-gmac", receiver=PEER)) == Suite.AES256_GCM


def test_a_receiver_that_announced_nothing_gets_the_suite_that_everybody_opens() -> None:
    codec = Codec(RING)
    for size in (0, 2 * LARGE):
        for suite in (None, Suite.NONE):
            assert code(encode(codec, bytes(size), receiver=PEER, suite=suite)) == Suite.HMAC_SHA256


def test_a_large_message_to_nobody_in_particular_is_signed_with_gmac() -> None:
    codec = Codec(RING)
    assert code(encode(codec, bytes(LARGE // 2), "topic")) == Suite.HMAC_SHA256
    assert code(encode(codec, bytes(2 * LARGE), "topic")) == Suite.AES256_GMAC


@EITHER_RING
def test_an_unknown_suite_is_refused(ring: Keyring | None) -> None:
    with pytest.raises(ConfigError, match="unknown suite 'md5'"):
        encode(Codec(ring), suite="md5")


def test_a_suite_signs_nothing_without_key() -> None:
    assert encode(Codec(), suite="aes256-gmac", receiver=PEER)[4] == b"\0" + PEER.encode()


def test_a_codec_names_the_suites_that_it_opens() -> None:
    assert Codec(RING).suites == ["hmac-sha256", "aes256-gmac", "aes256-gcm"]
    assert Codec(RING, accept_suites=["aes256-gcm", "hmac-sha256"]).suites == ["hmac-sha256", "aes256-gcm"]
    assert Codec().suites == []


# --- stamp -------------------------------------------------------------------------------------------


@EITHER_RING
def test_a_stamp_says_what_its_texts_say(ring: Keyring | None) -> None:
    codec, stamp = Codec(ring), Stamp(NOW, 5, 7)
    options = {"receiver": PEER, "sequence": 3}
    assert codec.encode(AGENT, "", 1, stamp=stamp, **options) == codec.encode(
        AGENT, "", 1, msgid=stamp.urn(), **options
    )
    assert codec.encode(AGENT, "", 1, stamp=stamp, msgid=PIZCO_ID, **options) == codec.encode(
        AGENT, "", 1, msgid=PIZCO_ID, own_id=stamp.hex(), **options
    )


def test_a_pzc00_message_has_the_id_of_its_stamp_or_the_one_it_answers() -> None:
    codec, stamp = Codec(RING, dialect="PZC00"), Stamp(NOW, 5, 7)
    assert codec.encode("tcp://h:1", "", 1, stamp=stamp)[3] == stamp.urn().encode()
    assert codec.encode("tcp://h:1", "", 1, stamp=stamp, msgid=PIZCO_ID)[3] == PIZCO_ID.encode()
    with pytest.raises(LocalProtocolError):
        codec.encode("tcp://h:1", "", 1)


def test_a_message_without_id_is_not_sent() -> None:
    with pytest.raises(LocalProtocolError, match="id of its sender's own"):
        Codec(RING).encode(AGENT, "", 1)


# --- arrays ------------------------------------------------------------------------------------------


class Counted:
    """Tells how often it was pickled."""

    def __init__(self) -> None:
        self.times = 0

    def __reduce__(self) -> tuple[type, tuple[()]]:
        self.times += 1
        return list, ()


@EITHER_RING
def test_large_arrays_are_sent_as_buffers_to_a_receiver_of_arrays(ring: Keyring | None) -> None:
    codec = Codec(ring)
    frames = encode(codec, {"image": IMAGE, "n": 1}, arrays=True)
    assert frames[1] == b"buffers"
    found = codec.content(codec.open(frames))
    assert found["n"] == 1
    assert np.array_equal(found["image"], IMAGE)


@given(st.lists(st.integers(0, LARGE), max_size=6))
def test_arrays_are_sent_as_buffers_exactly_when_they_are_large_together(sizes: list[int]) -> None:
    codec, content = Codec(RING), [IMAGE[:size] for size in sizes]
    frames, plain = encode(codec, content, arrays=True), encode(codec, content)
    if sum(sizes) > LARGE:
        assert frames[1] == b"buffers"
        assert len(frames[2]) < sum(sizes) + 1000 + 64 * len(sizes)
    else:
        assert (frames[1], frames[2]) == (b"pickle", plain[2])
    found = codec.content(codec.open(frames))
    assert [each.tobytes() for each in found] == [each.tobytes() for each in content]


@pytest.mark.parametrize("content", [[np.arange(10)], [IMAGE]], ids=["small", "large"])
def test_content_with_arrays_is_pickled_once(content: list[Any]) -> None:
    counted = Counted()
    encode(Codec(RING), [*content, counted], arrays=True)
    assert counted.times == 1


@pytest.mark.parametrize("name", ["pickle2", "pickle5", "json", "msgpack"])
def test_a_chosen_serializer_is_kept_for_arrays(name: str) -> None:
    assert encode(Codec(RING, serializer=name), IMAGE, arrays=True)[1] == name.encode()


def test_content_that_cannot_be_pickled_is_refused_with_arrays_too() -> None:
    with pytest.raises(SerializeError, match="pickle cannot express"):
        encode(Codec(RING), lambda: None, arrays=True)


# --- allocate ----------------------------------------------------------------------------------------


class Shelf:
    """Memory that was used before."""

    def __init__(self, spare: int = 0) -> None:
        self.spare = spare
        self.sizes: list[int] = []
        self.memory = bytearray()

    def allocate(self, size: int) -> memoryview:
        self.sizes.append(size)
        self.memory = bytearray(b"\xaa") * (size + self.spare)
        return memoryview(self.memory)


@pytest.mark.parametrize("spare", [0, 1, 5000])
@pytest.mark.parametrize("options", [{"serializer": "buffers"}, {"arrays": True}], ids=str)
@EITHER_RING
def test_a_content_is_written_once_to_the_memory_it_is_given(
    ring: Keyring | None, options: dict[str, Any], spare: int
) -> None:
    codec, shelf = Codec(ring), Shelf(spare)
    msgid = IDS.next_urn(NOW)
    frames = encode(codec, [IMAGE], msgid=msgid, allocate=shelf.allocate, **options)
    assert frames[2].obj is shelf.memory
    assert shelf.sizes == [len(frames[2])]
    assert [bytes(frame) for frame in frames] == [
        bytes(frame) for frame in encode(codec, [IMAGE], msgid=msgid, **options)
    ]


@given(st.lists(st.integers(0, 300), max_size=5))
def test_used_memory_does_not_show_in_a_frame(sizes: list[int]) -> None:
    codec, content = Codec(serializer="buffers"), [IMAGE[:size] for size in sizes]
    frames = encode(codec, content, allocate=Shelf(9).allocate)
    assert bytes(frames[2]) == bytes(encode(codec, content, allocate=bytearray)[2])
    assert bytes(frames[2]) == bytes(encode(codec, content)[2])


def test_memory_is_asked_for_only_by_buffers_and_never_for_a_secret() -> None:
    shelf = Shelf()
    for codec, options in (
        (Codec(RING), {}),
        (Codec(RING, serializer="json"), {}),
        (Codec(RING, suite="aes256-gcm"), {"serializer": "buffers"}),
        (Codec(RING), {"arrays": True, "suite": "aes256-gcm"}),
        (Codec(RING), {"arrays": True, "suite": Suite.AES256_GCM}),
    ):
        encode(codec, [7] if not options else [IMAGE], allocate=shelf.allocate, **options)
    assert shelf.sizes == []


@pytest.mark.parametrize("options", [{"serializer": "buffers"}, {"arrays": True}], ids=str)
def test_memory_that_is_too_small_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(SerializeError):
        encode(Codec(RING), [IMAGE], allocate=lambda size: bytearray(size - 1), **options)


# --- writable ----------------------------------------------------------------------------------------


@EITHER_RING
def test_arrays_in_writable_memory_are_writable_when_asked_for(ring: Keyring | None) -> None:
    codec = Codec(ring)
    frames = [bytes(frame) for frame in encode(codec, [IMAGE], arrays=True)]
    for memory in (bytearray(frames[2]), memoryview(bytearray(frames[2]))):
        envelope = codec.open([*frames[:2], memory, *frames[3:]])
        assert not codec.content(envelope)[0].flags.writeable
        (array,) = codec.content(envelope, writable=True)
        array[-1] = 99
        assert bytes(memory)[-1] == 99


@EITHER_RING
def test_arrays_in_received_bytes_are_read_only(ring: Keyring | None) -> None:
    codec = Codec(ring)
    frames = [bytes(frame) for frame in encode(codec, [IMAGE], arrays=True)]
    assert not codec.content(codec.open(frames), writable=True)[0].flags.writeable


def test_an_array_that_was_read_only_when_sent_stays_so() -> None:
    codec, image = Codec(RING), IMAGE.copy()
    image.flags.writeable = False
    frames = encode(codec, [image], arrays=True)
    envelope = codec.open([*frames[:2], bytearray(frames[2]), *frames[3:]])
    assert not codec.content(envelope, writable=True)[0].flags.writeable


@pytest.mark.parametrize("suite", ["hmac-sha256", "aes256-gmac"])
def test_a_large_content_is_signed_verified_and_decoded_in_place(suite: str) -> None:
    codec, image = Codec(RING), np.zeros(8 << 20, "u1")
    memory = memoryview(bytearray(image.nbytes + 1000))
    options = {"arrays": True, "suite": suite, "receiver": PEER, "allocate": lambda size: memory}
    tracemalloc.start()
    try:
        frames = encode(codec, [image], **options)
        (array,) = codec.content(codec.open(frames, kind=Kind.REQUEST, receiver=PEER), writable=True)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    array[:] = 7
    assert bytes(memory).count(7) >= image.nbytes


@pytest.mark.parametrize("suite", ["aes256-gmac", "hmac-sha256"])
def test_a_content_that_the_transport_proves_is_signed_by_its_length(suite: str) -> None:
    codec = Codec(Keyring.from_key("a long secret of secret"))
    large = b"x" * 100_000
    frames = codec.encode(
        "ab" * 16, "", large, stamp=Stamp(1, 2, 3), receiver="cd", suite=suite, proved=lambda _: True
    )
    opened = codec.open(frames, kind=Kind.REQUEST, receiver="cd", by_reference=True)
    assert codec.content(opened) == large
    with pytest.raises(SignatureError):
        codec.open(frames, kind=Kind.REQUEST, receiver="cd")
    with pytest.raises(SignatureError):
        codec.open([*frames[:2], bytes(frames[2])[:-1], *frames[3:]], receiver="cd", by_reference=True)


def test_a_content_that_was_signed_whole_is_not_taken_by_reference() -> None:
    codec = Codec(Keyring.from_key("a long secret of secret"))
    frames = codec.encode("ab" * 16, "", b"x" * 100_000, stamp=Stamp(1, 2, 3), receiver="cd")
    with pytest.raises(SignatureError):
        codec.open(frames, receiver="cd", by_reference=True)
