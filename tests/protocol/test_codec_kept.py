"""What a codec keeps between messages changes no byte and no decision, and is bounded."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.codec import Codec
from pzc.protocol.errors import ProtocolError, PzcError, SignatureError
from pzc.protocol.frames import MAX_SEQUENCE, Kind
from pzc.protocol.ids import MessageIds, Stamp
from pzc.protocol.keyring import Key, Keyring
from pzc.protocol.memo import CAPACITY

NOW = 1_700_000_000_000
AGENT, PEER = "a" * 32, "b" * 32
KEYS = [Key("a long secret of one"), Key("a long secret of two")]
RINGS = {"unsigned": None, "one": Keyring(KEYS, KEYS[0]), "two": Keyring(KEYS, KEYS[1])}
PIZCO_ID = "urn:uuid:9f717295-2ba7-4cab-9586-9de68210bb03"

few_names = st.sampled_from(["", "a", "b", "a+b", "é"])
messages = st.fixed_dictionaries(
    {
        "sender": st.sampled_from(["a", "b", "é", "a+"]),
        "topic": few_names,
        "msgid": st.sampled_from([None, PIZCO_ID, "x"]),
        "stamp": st.builds(Stamp, st.just(NOW), st.integers(0, 2**42 - 1), st.integers(0, 2)),
        "sequence": st.sampled_from([0, 1, MAX_SEQUENCE]),
        "key": few_names,
        "receiver": few_names,
        "dialect": st.sampled_from(["PZC01", "PZC01", "PZC00"]),
        "serializer": st.sampled_from(["pickle", "json", "buffers"]),
        "content": st.sampled_from(["x", 1]),
    }
)
readings = st.fixed_dictionaries({"kind": st.none() | st.sampled_from(Kind), "receiver": few_names})


def outcome(work: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return work(*arguments, **options)
    except PzcError as exc:
        return type(exc), str(exc)


@pytest.mark.parametrize("name", RINGS)
@given(st.lists(st.tuples(messages, readings), max_size=12))
def test_a_codec_that_has_seen_much_does_what_a_new_one_does(
    name: str, exchanges: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    old = Codec(RINGS[name])
    for message, reading in exchanges:
        frames = outcome(old.encode, **message)
        assert frames == outcome(Codec(RINGS[name]).encode, **message)
        if isinstance(frames, list):
            assert outcome(old.open, frames, **reading) == outcome(Codec(RINGS[name]).open, frames, **reading)


@pytest.mark.parametrize("name", RINGS)
@given(st.lists(st.tuples(messages, st.integers(0, 4), st.binary(max_size=50)), max_size=8))
def test_a_codec_that_has_seen_much_refuses_what_a_new_one_refuses(
    name: str, exchanges: list[tuple[dict[str, Any], int, bytes]]
) -> None:
    old = Codec(RINGS[name])
    for message, index, junk in exchanges:
        frames = outcome(old.encode, **message)
        if isinstance(frames, list):
            outcome(old.open, frames, receiver=message["receiver"])
            frames[index] = junk
            options = {"receiver": message["receiver"]}
            assert outcome(old.open, frames, **options) == outcome(Codec(RINGS[name]).open, frames, **options)


@pytest.mark.parametrize("ring", [None, RINGS["one"]], ids=["unsigned", "signed"])
def test_what_a_codec_keeps_is_bounded(ring: Keyring | None) -> None:
    codec, ids = Codec(ring), MessageIds(7)
    for number in range(2 * CAPACITY + 10):
        frames = codec.encode(AGENT, f"topic {number}", number, stamp=ids.next(NOW))
        assert codec.open(frames).decode() == number
        assert len(codec._incoming) <= CAPACITY
    assert codec._incoming


def test_a_message_that_is_not_verified_leaves_nothing_behind() -> None:
    codec, stranger, ids = (
        Codec(RINGS["one"]),
        Codec(Keyring.from_key("a long secret of other")),
        MessageIds(7),
    )
    for sender in (codec, stranger, Codec()):
        frames = sender.encode(AGENT, "", 1, stamp=ids.next(NOW), receiver=PEER)
        with pytest.raises(SignatureError):
            codec.open(frames, receiver=AGENT)
    assert not codec._incoming


def test_a_copy_of_a_codec_begins_with_nothing_kept() -> None:
    codec, ids = Codec(RINGS["one"]), MessageIds(7)
    frames = codec.encode(AGENT, "", 1, stamp=ids.next(NOW))
    codec.open(frames)
    twin = copy.copy(codec)
    assert not twin._incoming
    assert twin.encode(AGENT, "", 1, stamp=Stamp(NOW, 1, 7)) == codec.encode(
        AGENT, "", 1, stamp=Stamp(NOW, 1, 7)
    )
    assert twin.open(frames).decode() == 1


def test_threads_that_share_a_codec_in_different_epochs_sign_and_verify() -> None:
    codec, start, failed = Codec(RINGS["one"], seal=True), threading.Barrier(4), []

    def work(epoch: int) -> None:
        ids = MessageIds(epoch)
        start.wait()
        for number in range(300):
            frames = codec.encode(AGENT, "", number, stamp=ids.next(NOW), receiver=PEER)
            try:
                assert codec.open(frames, receiver=PEER).decode() == number
            except ProtocolError as exc:
                failed.append(exc)

    threads = [threading.Thread(target=work, args=(epoch,)) for epoch in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
