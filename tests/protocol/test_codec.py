"""The order of checks, and that nothing is decoded before all of them held."""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import signing
from pzc.protocol.codec import Codec
from pzc.protocol.errors import (
    ConfigError,
    DecodeError,
    FrameError,
    LocalProtocolError,
    ProtocolError,
    ReplayedMessage,
    SerializeError,
    SerializerRefused,
    SignatureError,
    StaleMessage,
    VersionError,
)
from pzc.protocol.frames import Kind
from pzc.protocol.ids import MessageIds, Stamp
from pzc.protocol.keyring import Key, Keyring, Role
from pzc.protocol.message import Facts, Message
from pzc.protocol.signing import SUITES
from pzc.protocol.window import ReplayWindow, SeenSignatures

from tests.protocol.messages import (
    AGENT,
    EITHER_RING,
    EVERY_SUITE,
    IDS,
    NOW,
    PEER,
    PIZCO_ID,
    RING,
    encode,
    pizco,
    spoiled,
)


class CreatesFile:
    """Unpickled without restriction, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Path.touch, (self.path,)


# --- what comes back ---------------------------------------------------------------------------------


@EITHER_RING
def test_a_request_comes_back_with_all_that_it_says(ring: Keyring | None) -> None:
    codec = Codec(ring)
    msgid = MessageIds(7, 5).next_urn(NOW)
    envelope = codec.open(encode(codec, receiver=PEER, msgid=msgid), kind=Kind.REQUEST, receiver=PEER)
    signer = ring.active if ring else None
    body = envelope.content
    facts = Facts.of("PZC01", Kind.REQUEST, AGENT, "", signer, trusted=ring is not None)
    assert envelope == Message(
        facts, msgid, Stamp(NOW, 5, 7), "pickle" if ring else "msgpack", body, 1 if ring else 0
    )
    assert envelope.decode() == "x"
    assert envelope.stamp == Stamp(NOW, 5, 7)
    assert envelope.key_id == (Key("a long secret of lab-secret").key_id if ring else "")


@EITHER_RING
def test_a_notification_comes_back_with_topic_sequence_and_key(ring: Keyring | None) -> None:
    codec = Codec(ring)
    envelope = codec.open(encode(codec, "volt+age", sequence=12, key="é+%"), kind=Kind.NOTIFICATION)
    assert (envelope.topic, envelope.sequence, envelope.key) == ("volt+age", 12, "é+%")


@EITHER_RING
def test_a_reply_echoes_an_id_and_is_stamped_with_its_own(ring: Keyring | None) -> None:
    codec = Codec(ring)
    frames = encode(codec, msgid=PIZCO_ID, own_id=MessageIds(9, 4).next(NOW + 5).hex(), receiver=PEER)
    envelope = codec.open(frames, kind=Kind.REPLY, receiver=PEER)
    assert (envelope.msgid, envelope.stamp) == (PIZCO_ID, Stamp(NOW + 5, 4, 9))


@EITHER_RING
def test_a_pzc00_message_comes_back_without_stamp(ring: Keyring | None) -> None:
    codec = Codec(ring)
    envelope = codec.open(pizco(codec), kind=Kind.NOTIFICATION)
    assert (envelope.dialect, envelope.kind, envelope.sender) == (
        "PZC00",
        Kind.NOTIFICATION,
        "tcp://127.0.0.1:5",
    )
    assert (envelope.stamp, envelope.epoch, envelope.sequence) == (None, 0, 0)
    assert (envelope.signer is not None, envelope.msgid) == (ring is not None, PIZCO_ID)


@EVERY_SUITE
def test_the_chosen_suite_signs_small_and_large_contents(suite: str) -> None:
    codec = Codec(RING, seal=suite == "aes256-gcm")
    for size in (0, 2 * signing.LARGE):
        frames = encode(codec, content=bytes(size))
        assert frames[4][0] == SUITES[suite]
        assert codec.open(frames).decode() == bytes(size)


def test_only_gcm_hides_the_content() -> None:
    content = b"the secret recipe"
    hidden = {
        suite: content not in encode(Codec(RING, seal=suite == "aes256-gcm"), content=content)[2]
        for suite in SUITES
    }
    assert hidden == {"hmac-sha256": False, "aes256-gcm": True}


def test_the_signer_is_known_by_name_and_role_of_the_receivers_keyring() -> None:
    receiver = Codec(
        Keyring(
            [Key("a long secret of lab-secret", "alice", Role.OBSERVER), Key("a long secret of other")],
            Key("a long secret of other"),
        )
    )
    for frames in (encode(Codec(RING)), pizco(Codec(RING))):
        signer = receiver.open(frames).signer
        assert signer is not None
        assert (signer.name, signer.role) == ("alice", Role.OBSERVER)


# --- who may send ------------------------------------------------------------------------------------


def test_an_unsigned_message_is_refused_by_an_agent_with_a_key() -> None:
    for frames in (encode(Codec()), pizco(Codec())):
        with pytest.raises(SignatureError, match="requires a signature"):
            Codec(RING).open(frames)


@EVERY_SUITE
def test_a_signed_message_is_refused_by_an_agent_without_key(suite: str) -> None:
    with pytest.raises(SignatureError, match="set PZC_KEY"):
        Codec().open(encode(Codec(RING, seal=suite == "aes256-gcm")))


def test_a_signed_pzc00_message_counts_as_unsigned_for_an_agent_without_key() -> None:
    assert Codec().open(pizco(Codec(RING))).signer is None


def test_an_unknown_key_is_told_by_its_id() -> None:
    with pytest.raises(
        SignatureError, match=f"unknown key '{Key('a long secret of other').key_id}': keys differ"
    ):
        Codec(RING).open(encode(Codec(Keyring.from_key("a long secret of other"))))


def test_an_unsigned_message_for_another_agent_is_refused() -> None:
    codec = Codec()
    for receiver in ("", "c" * 32, PEER[:-1], PEER + "b"):
        with pytest.raises(SignatureError, match="addressed to another agent"):
            codec.open(encode(codec, receiver=PEER), receiver=receiver)


@pytest.mark.parametrize("dialect", ["PZC00", "PZC01"])
@EITHER_RING
def test_a_dialect_that_is_not_accepted_is_refused(dialect: str, ring: Keyring | None) -> None:
    other = "PZC01" if dialect == "PZC00" else "PZC00"
    with pytest.raises(VersionError, match=f"{dialect} is not accepted here, only {other}"):
        Codec(ring, accept=[other], dialect=other).open(encode(Codec(ring), dialect=dialect))


@EITHER_RING
def test_an_unsigned_message_with_the_wrong_kind_is_refused(ring: Keyring | None) -> None:
    codec = Codec(ring)
    for kind in (Kind.REPLY, Kind.NOTIFICATION):
        with pytest.raises(FrameError, match=f"expected a {kind.name.lower()}"):
            codec.open(encode(codec), kind=kind)


@pytest.mark.parametrize("size", [1, 19, 21, 32])
def test_an_unsigned_pzc00_message_has_an_empty_or_a_whole_signature(size: int) -> None:
    with pytest.raises(FrameError, match="0 or 20 bytes"):
        Codec().open([*pizco(Codec())[:4], bytes(size)])


def test_a_signed_pzc00_message_needs_a_canonical_id() -> None:
    codec = Codec(RING)
    frames = pizco(codec)
    with pytest.raises(FrameError, match="canonical"):
        codec.open([*frames[:3], frames[3].upper(), frames[4]])


# --- the order of checks -----------------------------------------------------------------------------


def test_each_check_comes_before_the_next() -> None:
    """One message that is wrong in every way; each time the first thing wrong is put right."""
    sender = Codec(RING, serializer="pickle")
    receiver = Codec(RING, serializer="json", accept=["PZC01"])
    window = ReplayWindow()
    good = encode(sender)
    receiver_window_knows = Codec(RING).open(good, window=window)
    assert receiver_window_knows
    steps: list[tuple[list[bytes], int, ReplayWindow | None, type[ProtocolError]]] = [
        ([b"PZC00+a+b", *spoiled(good)[1:], b"six"], 0, window, FrameError),
        ([b"PZC00+a+b", *spoiled(good)[1:]], 0, window, VersionError),
        (spoiled(good), 0, window, SignatureError),
        (good, 0, window, StaleMessage),
        (good, NOW, window, ReplayedMessage),
        (good, NOW, None, SerializerRefused),
    ]
    for frames, now_ms, memory, error in steps:
        with pytest.raises(ProtocolError) as caught:
            receiver.open(frames, now_ms=now_ms, window=memory)
        assert caught.type is error


@pytest.mark.parametrize("name", ["pickle", "pickle2", "buffers"])
@EITHER_RING
def test_a_json_agent_refuses_a_pickle_and_creates_no_file(
    tmp_path: Path, ring: Keyring | None, name: str
) -> None:
    trap = CreatesFile(tmp_path / "trap")
    receiver = Codec(ring, serializer="json")
    for frames in (
        encode(Codec(ring), content=trap, serializer=name),
        pizco(Codec(ring), trap, serializer=name),
    ):
        with pytest.raises(SerializerRefused, match="not accepted here, only json, msgpack"):
            receiver.open(frames)
    assert not trap.path.exists()


@pytest.mark.parametrize("name", ["pickle", "pickle2", "buffers"])
def test_an_agent_without_key_refuses_a_pickle_that_would_create_a_file(tmp_path: Path, name: str) -> None:
    trap = CreatesFile(tmp_path / "trap")
    codec = Codec()
    for frames in (
        encode(codec, content=trap, serializer=name),
        pizco(codec, trap, serializer=name),
        pizco(Codec(RING), trap, serializer=name),
    ):
        with pytest.raises(SerializerRefused):
            codec.open(frames).decode()
    assert not trap.path.exists()


def test_a_class_that_is_not_here_is_an_error_that_tells_where_it_must_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codec, module = Codec(RING), types.ModuleType("only_at_the_sender")
    module.Gone = type("Gone", (), {"__module__": module.__name__})  # type: ignore[attr-defined]
    with monkeypatch.context() as sender:
        sender.setitem(sys.modules, module.__name__, module)
        frames = encode(codec, content=module.Gone(), receiver=PEER)
    with pytest.raises(DecodeError, match=r"only_at_the_sender.*in a module that both sides can import"):
        codec.open(frames, receiver=PEER).decode()


@EVERY_SUITE
def test_opening_decodes_nothing(tmp_path: Path, suite: str) -> None:
    trap = CreatesFile(tmp_path / "trap")
    codec = Codec(RING, seal=suite == "aes256-gcm")
    envelope = codec.open(encode(codec, content=trap, receiver=PEER), receiver=PEER)
    assert not trap.path.exists()
    envelope.decode()
    assert trap.path.exists()


def test_verified_junk_is_a_decode_error() -> None:
    codec = Codec(RING, serializer="json")
    envelope = codec.open(encode(codec))
    envelope.content = b"{"
    with pytest.raises(DecodeError):
        envelope.decode()


def test_a_signed_message_in_an_unknown_serializer_is_refused() -> None:
    frames = pizco(Codec())
    frames[1] = b"yaml"
    with pytest.raises(SerializerRefused, match="'yaml' is not accepted"):
        Codec().open(frames)


# --- any bytes ---------------------------------------------------------------------------------------

GOOD = [encode(Codec(RING)), encode(Codec()), pizco(Codec(RING)), pizco(Codec())]
junk = st.one_of(
    st.lists(st.binary(max_size=80), max_size=7),
    st.sampled_from(GOOD).flatmap(
        lambda frames: st.tuples(*[st.just(frame) | st.binary(max_size=60) for frame in frames]).map(list)
    ),
)


@EITHER_RING
@given(junk)
def test_any_frames_give_an_envelope_or_a_typed_error(ring: Keyring | None, frames: list[bytes]) -> None:
    codec = Codec(ring)
    try:
        envelope = codec.open(frames, now_ms=NOW, window=ReplayWindow(), seen=SeenSignatures())
        envelope.decode()
    except ProtocolError:
        return
    assert frames in GOOD or ring is None


# --- what cannot be sent -----------------------------------------------------------------------------


@EITHER_RING
@pytest.mark.parametrize(
    "options",
    [
        {"msgid": "\ud800", "own_id": IDS.next(NOW).hex()},
        {"sequence": -1},
        {"serializer": "yaml"},
    ],
)
def test_what_no_receiver_would_take_is_refused_by_the_sender(
    ring: Keyring | None, options: dict[str, Any]
) -> None:
    with pytest.raises(LocalProtocolError):
        encode(Codec(ring), "topic", **options)


def test_a_signed_pzc00_message_with_another_id_is_refused_by_the_sender() -> None:
    with pytest.raises(LocalProtocolError, match="urn:uuid"):
        pizco(Codec(RING), msgid="mine")
    assert Codec().open(pizco(Codec(), msgid="mine")).msgid == "mine"


def test_a_content_above_the_limit_is_refused_on_both_sides() -> None:
    small, large = Codec(serializer="json", max_content=5), Codec(serializer="json")
    assert small.open(encode(small, content="123"))
    with pytest.raises(LocalProtocolError, match="6 bytes, the limit is 5"):
        encode(small, content="1234")
    with pytest.raises(FrameError, match="content frame has 6 bytes, the limit is 5"):
        small.open(encode(large, content="1234"))


def test_a_content_that_the_serializer_cannot_express_is_refused() -> None:
    with pytest.raises(SerializeError):
        encode(Codec(serializer="json"), content=logging)


@pytest.mark.parametrize(
    "options",
    [
        {"dialect": "PZC02"},
        {"accept": ["PZC02"]},
        {"accept": []},
        {"accept": ["PZC01"], "dialect": "PZC00"},
        {"accept": ["PZC00"]},
    ],
)
def test_a_codec_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Codec(RING, **options)


@pytest.mark.parametrize("names", [["jsn"], "json"])
def test_a_misspelt_serializer_in_the_allow_list_is_refused(names: Iterable[str]) -> None:
    with pytest.raises(LocalProtocolError, match="no serializer is called"):
        Codec(accept_serializers=names)
