"""A session makes and takes what the codec makes and takes, and refuses everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.codec import FRESH_MS, Codec
from pzc.protocol.errors import (
    FrameError,
    LocalProtocolError,
    ProtocolError,
    ReplayedMessage,
    SerializeError,
    SerializerRefused,
    SignatureError,
    StaleMessage,
)
from pzc.protocol.frames import Buffer, Kind
from pzc.protocol.ids import Stamp
from pzc.protocol.keyring import Key, Role
from pzc.protocol.session import ARRAYS, REFERENCES, Session
from pzc.protocol.signing import LARGE, Suite
from pzc.protocol.window import ReplayWindow

from tests.protocol.sessions import (
    CLIENT,
    EPOCHS,
    KEY,
    NONCE,
    NOW,
    OTHER,
    SERVER,
    SUITES,
    Pair,
    contents,
    every_serializer,
    every_suite,
    pair,
    plain,
)


def codec_of(ends: Pair) -> Codec:
    """One that sends in the suite of the sessions."""
    return Codec(ends.codec.keyring, seal=ends.suite is Suite.AES256_GCM)


@every_suite
@every_serializer
@given(content=contents, ms=st.integers(0, (1 << 48) - 1), counter=st.integers(0, (1 << 42) - 1))
def test_a_request_is_what_the_codec_makes_and_the_codec_opens_it(
    suite: Suite | None, serializer: str, content: Any, ms: int, counter: int
) -> None:
    ends = pair(suite)
    stamp = Stamp(ms, counter, EPOCHS[0])
    expected = codec_of(ends).encode(
        CLIENT, "", content, stamp=stamp, sequence=ARRAYS, receiver=SERVER + NONCE, serializer=serializer
    )
    made = ends.asking.seal(content, ms, counter, serializer=serializer)
    assert plain(made) == plain(expected)
    ends.answering.last = -1
    found = ends.answering.open(made)
    assert found == ends.codec.open(made, kind=Kind.REQUEST, receiver=SERVER + NONCE)
    assert (found.stamp, found.sequence, found.suite) == (stamp, ARRAYS, suite or 0)


@every_suite
@every_serializer
@given(content=contents, ms=st.integers(0, (1 << 48) - 1), counter=st.integers(0, (1 << 42) - 1))
def test_a_reply_is_what_the_codec_makes_and_the_codec_opens_it(
    suite: Suite | None, serializer: str, content: Any, ms: int, counter: int
) -> None:
    ends = pair(suite)
    request = ends.answering.open(ends.ask(serializer=serializer))
    expected = codec_of(ends).encode(
        SERVER, "", content, msgid=request.msgid, stamp=Stamp(ms, counter, EPOCHS[1]),
        receiver=CLIENT + NONCE, serializer=serializer,
    )  # fmt: skip
    made = ends.answering.seal(content, ms, counter, answers=request)
    assert plain(made) == plain(expected)
    assert ends.asking.open(made) == ends.codec.open(made, kind=Kind.REPLY, receiver=CLIENT + NONCE)


@every_suite
@pytest.mark.parametrize("size", [0, LARGE - 40, LARGE, LARGE + 1, 3 * LARGE])
def test_contents_of_every_size_come_back(suite: Suite | None, size: int) -> None:
    ends = pair(suite)
    given, taken = bytes(range(256)) * (size // 256 + 1), np.arange(size // 8 + 1)
    request, reply = ends.exchange(given, taken)
    assert request == given
    np.testing.assert_array_equal(reply, taken)


@every_suite
@pytest.mark.parametrize("reply", [False, True], ids=["request", "reply"])
def test_each_flipped_bit_is_refused(suite: Suite | None, reply: bool) -> None:
    ends = pair(suite)
    frames = ends.ask()
    end = ends.answering
    if reply:
        frames, end = ends.reply(ends.answering.open(frames)), ends.asking
    last = end.last
    for index, frame in enumerate(frames):
        if suite is None and index != 4:
            continue  # nothing protects them
        raw = bytearray(frame)
        for bit in range(8 * len(raw)):
            raw[bit >> 3] ^= 1 << (bit & 7)
            with pytest.raises(ProtocolError):
                end.open([*frames[:index], bytes(raw), *frames[index + 1 :]])
            raw[bit >> 3] ^= 1 << (bit & 7)
    assert end.last == last
    end.open(frames)


@every_suite
def test_a_request_is_taken_once_and_in_order_on_a_bound_connection(suite: Suite | None) -> None:
    ends = pair(suite)
    first, second = ends.ask(), ends.ask()
    ends.answering.open(second)
    for frames in (second, first):
        with pytest.raises(ReplayedMessage):
            ends.answering.open(frames)


def test_a_request_is_taken_once_and_fresh_where_nothing_is_bound() -> None:
    ends, window = pair(binding=""), ReplayWindow()
    first, second = ends.ask(), ends.ask()
    ends.answering.open(second, now_ms=NOW, window=window)
    ends.answering.open(first, now_ms=NOW + FRESH_MS, window=window)
    with pytest.raises(ReplayedMessage):
        ends.answering.open(first, now_ms=NOW, window=window)
    for late in (FRESH_MS + 1, -FRESH_MS - 1):
        with pytest.raises(StaleMessage):
            ends.answering.open(ends.ask(), now_ms=NOW + late, window=window)
        ends.answering.open(ends.ask(), now_ms=NOW + late, offset_ms=-late, window=window)


@every_suite
@pytest.mark.parametrize("reply", [False, True], ids=["request", "reply"])
def test_a_message_of_another_connection_is_refused(suite: Suite | None, reply: bool) -> None:
    ends, other = pair(suite), pair(suite, binding="/" + "01" * 16)
    frames = ends.ask()
    if reply:
        with pytest.raises(SignatureError):
            other.asking.open(ends.reply(ends.answering.open(frames)))
        return
    with pytest.raises(SignatureError):
        other.answering.open(frames)


@every_suite
def test_a_message_of_the_other_direction_is_refused(suite: Suite | None) -> None:
    ends = pair(suite)
    frames = ends.ask()
    reply = ends.reply(ends.answering.open(frames))
    with pytest.raises(FrameError):
        ends.asking.open(frames)
    with pytest.raises(FrameError):
        ends.answering.open(reply)


@pytest.mark.parametrize("suite", SUITES[1:])
def test_another_key_is_refused(suite: Suite) -> None:
    ends, other = pair(suite), pair(suite, key=OTHER)
    with pytest.raises(SignatureError, match="signed with the key"):
        ends.answering.open(other.ask())
    tag = plain(other.ask())
    tag[4] = tag[4].removesuffix(OTHER.key_id.encode()) + KEY.key_id.encode()
    with pytest.raises(SignatureError, match="does not match"):
        ends.answering.open(list(tag))


def test_what_is_signed_and_what_is_not_are_kept_apart() -> None:
    signed, unsigned = pair(), pair(None)
    with pytest.raises(SignatureError, match="requires a signature"):
        signed.answering.open(unsigned.ask())
    with pytest.raises(SignatureError, match="has no key"):
        unsigned.answering.open(signed.ask())


@pytest.mark.parametrize("suite", SUITES[1:])
def test_a_reply_comes_in_the_suite_of_the_connection_and_the_serializer_of_its_request(suite: Suite) -> None:
    ends = pair(suite)
    for name in ["json", "pickle", "msgpack"]:
        frames = ends.reply(ends.answering.open(ends.ask(serializer=name)))
        assert (frames[1], frames[4][0]) == (name.encode(), suite)
        assert ends.asking.open(frames).decode() == "done"


def test_a_suite_that_was_chosen_seals_everything() -> None:
    ends = pair(Suite.HMAC_SHA256)
    request = ends.answering.open(ends.ask())
    ends.codec.suite = Suite.AES256_GCM
    chosen = Session.answering(ends.codec, SERVER, EPOCHS[1], request, binding=NONCE)
    frames = chosen.seal("x", NOW, ends.count(), answers=request)
    assert frames[4][0] == Suite.AES256_GCM
    assert ends.asking.open(frames).decode() == "x"


def test_an_agent_that_forked_goes_on_with_another_epoch() -> None:
    ends = pair(Suite.AES256_GCM)
    child = Session(
        ends.codec, ends.asking.own._replace(epoch=9), ends.asking.peer, asks=True, binding=NONCE,
        suite=Suite.AES256_GCM, abilities=ARRAYS,
    )  # fmt: skip
    assert ends.answering.open(child.seal("x", NOW, 100)).epoch == 9


def test_a_sender_may_learn_to_read_more() -> None:
    ends = pair()
    able = Session(
        ends.codec, ends.asking.own, ends.asking.peer, asks=True, binding=NONCE, abilities=ARRAYS | REFERENCES
    )
    assert ends.answering.open(able.seal("x", NOW, 100)).sequence == ARRAYS | REFERENCES


def test_a_request_of_another_agent_is_refused() -> None:
    ends = pair()
    other = Session(
        ends.codec, ends.asking.own._replace(agent_id="12" * 16), ends.asking.peer, asks=True, binding=NONCE
    )
    with pytest.raises(FrameError, match=r"a message of .1212"):
        ends.answering.open(other.seal("x", NOW, 100))


def test_a_serializer_that_is_not_accepted_is_refused_behind_the_signature() -> None:
    ends = pair()
    ends.codec = Codec(ends.codec.keyring, accept_serializers=["json"])
    answering = Session(
        ends.codec, ends.answering.own, ends.answering.peer, asks=False, binding=NONCE, abilities=ARRAYS
    )
    frames = ends.ask()
    with pytest.raises(SignatureError):
        answering.open([frames[0], b"nonsense", *frames[2:]])
    with pytest.raises(SerializerRefused):
        answering.open(frames)
    assert answering.open(ends.ask(serializer="json")).decode()


def test_only_a_key_of_an_operator_is_trusted_with_pickles() -> None:
    assert pair().asking.facts.trusted
    assert not pair(None).asking.facts.trusted
    assert not pair(key=Key("a secret of observers", role=Role.OBSERVER)).answering.facts.trusted


def test_a_content_can_be_expressed_before_it_is_sealed() -> None:
    ends = pair()
    frames = ends.ask(packed=("json", b'{"a":1}'))
    assert ends.answering.open(frames).decode() == {"a": 1}


def test_a_message_that_somebody_else_has_verified_is_the_very_same() -> None:
    ends = pair()
    frames = ends.ask()
    stamp = Stamp(NOW, ends.count() - 1, EPOCHS[0])
    opened = ends.answering.open(frames)
    assert ends.answering.take((bytes(frames[2]), opened.msgid, stamp.ms, stamp.counter)) == opened
    assert ends.answering.last == stamp.counter


@pytest.mark.parametrize("content", [lambda: None, object])
def test_what_cannot_be_expressed_is_an_error(content: object) -> None:
    with pytest.raises(SerializeError):
        pair().ask(content, serializer="json")
    with pytest.raises(SerializeError):
        pair().ask(lambda: None)


def test_what_the_wire_cannot_carry_is_an_error() -> None:
    ends = pair()
    ends.codec.max_content = 100
    small = Session(ends.codec, ends.asking.own, ends.asking.peer, asks=True)
    with pytest.raises(LocalProtocolError, match="limit is 100"):
        small.seal(b"x" * 101, NOW, 1)
    for ms in (-1, 1 << 48):
        with pytest.raises(LocalProtocolError, match="clock"):
            ends.asking.seal("x", ms, 1)


frame = st.binary(max_size=60)


@every_suite
@given(data=st.data())
def test_junk_raises_nothing_but_protocol_errors(suite: Suite | None, data: st.DataObject) -> None:
    ends = pair(suite)
    request = ends.ask()
    good = [plain(request), plain(ends.reply(ends.answering.open(request)))]
    frames = data.draw(st.sampled_from(good))
    kinds = st.sampled_from([bytes, bytearray, memoryview])
    mixed: list[Buffer] = [
        (data.draw(kinds) if number == 2 else bytes)(
            data.draw(st.one_of(st.just(each), frame, st.builds(bytes.__add__, st.just(each), frame)))
        )
        for number, each in enumerate(frames)
    ]
    mixed = mixed[: data.draw(st.integers(0, 5))] if data.draw(st.booleans()) else mixed
    for end in (ends.asking, ends.answering):
        try:
            end.open(mixed)
        except ProtocolError:
            continue
        assert suite is None or any(plain(mixed)[1:] == each[1:] for each in good)
