"""Sessions: both ends of a connection for tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from pzc.protocol.codec import Codec
from pzc.protocol.frames import Buffer, Kind
from pzc.protocol.keyring import Key, Keyring
from pzc.protocol.message import Message
from pzc.protocol.session import ARRAYS, Party, Session
from pzc.protocol.signing import Suite

CLIENT, SERVER, NONCE = "ab" * 16, "cd" * 16, "/" + "ef" * 16
NOW = 1_795_000_000_123
EPOCHS = (0x0102AB7, 0xFFFFFFFF)
KEY, OTHER = Key("a secret of the lab"), Key("a secret of others")
SUITES = [None, Suite.HMAC_SHA256, Suite.AES256_GCM]
every_suite = pytest.mark.parametrize("suite", SUITES, ids=["unsigned", "hmac", "gcm"])
every_serializer = pytest.mark.parametrize("serializer", ["pickle", "pickle2", "json", "msgpack"])

contents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@dataclass
class Pair:
    """Both ends of a connection, and the codec that they share."""

    codec: Codec
    suite: Suite | None
    binding: str
    asking: Session
    answering: Session
    count: Callable[[], int]

    def ask(
        self, content: object = ("PSMessage", "get", {"name": "voltage"}), **options: Any
    ) -> list[Buffer]:
        return self.asking.seal(content, NOW, self.count(), **options)

    def reply(self, request: Message, content: object = "done", **options: Any) -> list[Buffer]:
        return self.answering.seal(content, NOW, self.count(), answers=request, **options)

    def exchange(self, content: object, answer: object, **options: Any) -> tuple[Any, Any]:
        request = self.answering.open(self.ask(content, **options))
        reply = self.asking.open(self.reply(request, answer))
        assert reply.msgid == request.msgid
        return request.decode(), reply.decode()


def pair(
    suite: Suite | None = Suite.HMAC_SHA256, *, binding: str = NONCE, key: Key = KEY, **options: Any
) -> Pair:
    used = None if suite is None else key
    codec = Codec(None if used is None else Keyring([used]))
    client, server = Party(CLIENT, EPOCHS[0], used), Party(SERVER, EPOCHS[1], used)
    asking = Session(
        codec,
        client,
        server,
        asks=True,
        binding=binding,
        suite=suite,
        abilities=ARRAYS,
        **options,
    )
    count = itertools.count(7).__next__
    first = asking.seal("first", NOW, count())
    request = codec.open(first, kind=Kind.REQUEST, receiver=SERVER + binding)
    answering = Session.answering(codec, SERVER, EPOCHS[1], request, binding=binding, **options)
    return Pair(codec, suite, binding, asking, answering, count)


def plain(frames: list[Buffer]) -> list[bytes]:
    return [bytes(frame) for frame in frames]
