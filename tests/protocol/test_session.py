from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.codec import Codec
from pzc.protocol.errors import PzcError, SerializeError
from pzc.protocol.frames import Buffer, Kind
from pzc.protocol.ids import Stamp
from pzc.protocol.keyring import Key, Keyring
from pzc.protocol.session import AnsweringSession, AskingSession, Party

CLIENT, SERVER, NONCE = "ab" * 16, "cd" * 16, "/" + "ef" * 16
NOW = 1_795_000_000_123
EPOCHS = (0x0102AB7, 0xFFFFFFFF)

contents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@dataclass
class Pair:
    """Both ends of a connection, and the codecs that they are a short cut through."""

    codec: Codec
    asking: AskingSession
    answering: AnsweringSession

    def request(self, content: object, ms: int = NOW) -> list[Buffer]:
        frames = self.asking.ask(content, ms)
        assert frames is not None
        return frames

    def open(self, frames: list[Buffer]) -> tuple[int, Any] | None:
        found = self.answering.verify(frames)
        return None if found is None else (found[1], self.answering.decode(frames[2]))

    def reply(self, content: object, msgid: Buffer, ms: int = NOW) -> list[Buffer]:
        frames = self.answering.reply(content, msgid, ms)
        assert frames is not None
        return frames


def counter(first: int = 0) -> Callable[[], int]:
    return itertools.count(first).__next__


def pair(secret: str = "secret", arrays: bool = True, first: int = 7) -> Pair:
    key = Key(secret) if secret else None
    codec = Codec(None if key is None else Keyring([key]))
    client = Party(CLIENT, CLIENT + NONCE, key, EPOCHS[0])
    server = Party(SERVER, SERVER + NONCE, key, EPOCHS[1])
    asking = AskingSession(client, server, 1, arrays, counter(first))
    made = asking.ask(None, NOW)
    assert made is not None
    answering = AnsweringSession(server, client, bytes(made[0]), arrays, counter(first))
    return Pair(codec, asking, answering)


@pytest.fixture(params=["secret", ""], ids=["signed", "unsigned"])
def ends(request: pytest.FixtureRequest) -> Pair:
    return pair(request.param)


def suite(codec: Codec) -> str | None:
    return "aes256-gmac" if codec.keyring else None


@pytest.mark.parametrize("secret", ["secret", ""], ids=["signed", "unsigned"])
@given(content=contents, ms=st.integers(0, (1 << 48) - 1), first=st.integers(0, (1 << 41) - 1))
def test_a_request_is_what_the_codec_makes_and_the_codec_opens_it(
    secret: str, content: Any, ms: int, first: int
) -> None:
    ends = pair(secret, first=first)
    made = ends.request(content, ms)
    expected = ends.codec.encode(
        CLIENT, "", content, stamp=Stamp(ms, first + 1, EPOCHS[0]), sequence=1, receiver=SERVER + NONCE,
        suite=suite(ends.codec), arrays=True,
    )  # fmt: skip
    assert [bytes(frame) for frame in made] == [bytes(frame) for frame in expected]
    envelope = ends.codec.open(made, kind=Kind.REQUEST, receiver=SERVER + NONCE)
    assert ends.open(made) == (first + 1, ends.codec.content(envelope))


@pytest.mark.parametrize("secret", ["secret", ""], ids=["signed", "unsigned"])
@given(content=contents, ms=st.integers(0, (1 << 48) - 1), first=st.integers(0, (1 << 41) - 1))
def test_a_reply_is_what_the_codec_makes_and_the_codec_opens_it(
    secret: str, content: Any, ms: int, first: int
) -> None:
    ends = pair(secret, first=first)
    msgid = ends.request(None)[3]
    made = ends.reply(content, msgid, ms)
    expected = ends.codec.encode(
        SERVER, "", content, msgid=bytes(msgid).decode(), stamp=Stamp(ms, first, EPOCHS[1]),
        receiver=CLIENT + NONCE, suite=suite(ends.codec), arrays=True,
    )  # fmt: skip
    assert [bytes(frame) for frame in made] == [bytes(frame) for frame in expected]
    envelope = ends.codec.open(made, kind=Kind.REPLY, receiver=CLIENT + NONCE)
    assert ends.asking.answer(made, msgid) == (ends.codec.content(envelope),)


@given(which=st.integers(0, 4), at=st.integers(0, 500), flip=st.integers(1, 255), signed=st.booleans())
def test_of_an_altered_request_nothing_is_taken_that_the_codec_would_refuse(
    which: int, at: int, flip: int, signed: bool
) -> None:
    ends = pair("secret" if signed else "")
    frames = ends.request({"name": "add", "args": (1, 2)})
    raw = bytearray(frames[which])
    if not raw:
        return
    raw[at % len(raw)] ^= flip
    frames[which] = bytes(raw)
    try:
        taken = ends.open(frames)
    except PzcError:
        return  # what no key protects may be junk
    if taken is not None:
        envelope = ends.codec.open(frames, kind=Kind.REQUEST, receiver=SERVER + NONCE)
        assert taken[1] == ends.codec.content(envelope)
        assert not signed


def test_a_request_of_another_connection_is_not_taken(ends: Pair) -> None:
    frames = ends.request("x")
    client = Party(CLIENT, CLIENT + "/other", None, EPOCHS[0])
    key = ends.codec.keyring.active if ends.codec.keyring else None
    server = Party(SERVER, SERVER + "/other", key, EPOCHS[1])
    other = AnsweringSession(server, client._replace(key=key), bytes(frames[0]), True, counter())
    assert other.verify(frames) is None


def test_a_reply_to_another_request_is_not_taken(ends: Pair) -> None:
    first, second = ends.request("x")[3], ends.request("y")[3]
    assert ends.asking.answer(ends.reply("z", first), second) is None


def test_a_request_is_not_taken_for_a_reply(ends: Pair) -> None:
    frames = ends.request("x")
    assert ends.asking.answer(frames, frames[3]) is None


def test_a_message_of_another_epoch_is_left_to_the_codec(ends: Pair) -> None:
    key = ends.codec.keyring.active if ends.codec.keyring else None
    restarted = AskingSession(
        Party(CLIENT, CLIENT + NONCE, key, 9),
        Party(SERVER, SERVER + NONCE, key, EPOCHS[1]),
        1,
        True,
        counter(),
    )
    frames = restarted.ask("x", NOW)
    assert frames is not None
    assert ends.open(frames) is None


@pytest.mark.parametrize("content", [np.zeros(20_000), b"x" * 70_000], ids=["array", "bytes"])
def test_a_large_content_is_left_to_the_codec(ends: Pair, content: Any) -> None:
    assert ends.asking.ask(content, NOW) is None
    assert ends.answering.reply(content, b"urn:uuid:", NOW) is None


def test_what_cannot_be_expressed_is_an_error(ends: Pair) -> None:
    with pytest.raises(SerializeError):
        ends.asking.ask(lambda: None, NOW)


def test_frames_that_are_no_bytes_are_left_to_the_codec(ends: Pair) -> None:
    frames = [memoryview(frame) for frame in ends.request("x")]
    assert ends.open(list(frames)) is None
