"""Handshakes: both ends for tests, and what carries their messages."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from hashlib import sha512
from typing import Any

import pytest

from pzc.protocol.codec import Codec
from pzc.protocol.handshake import Agreement, ClientHandshake, ServerHandshake, SessionOptions
from pzc.protocol.keyring import Keyring

CLIENT, SERVER, OTHER, SESSION = "ab" * 16, "cd" * 16, "12" * 16, "ef" * 16
SECRET = "a secret of the lab"
KEYED, KEYLESS, SEALING = Codec(Keyring.from_key(SECRET)), Codec(), Codec(Keyring.from_key(SECRET), seal=True)
STRANGE = Codec(Keyring.from_key("a secret of others"))

every_suite = pytest.mark.parametrize("codec", [KEYED, SEALING], ids=["hmac", "gcm"])

Carry = Callable[[int, bytes], bytes]
_count = itertools.count()


def random_bytes() -> bytes:
    """64 bytes that no other call gives."""
    return sha512(b"%d" % next(_count)).digest()


def client(
    codec: Codec = KEYED, *, target: str = SERVER, carrier: str = "unix", **session: Any
) -> ClientHandshake:
    options = SessionOptions(SESSION, random_bytes(), **session)
    return ClientHandshake(codec, CLIENT, 1, target, carrier, options)


def server(
    codec: Codec = KEYED, *, carrier: str = "unix", resume_key: bytes | None = None
) -> ServerHandshake:
    return ServerHandshake(codec, SERVER, 2, carrier, random_bytes(), lambda *_: resume_key)


def as_sent(_number: int, message: bytes) -> bytes:
    return message


def shake(one: ClientHandshake, two: ServerHandshake, carry: Carry = as_sent) -> tuple[Agreement, Agreement]:
    """Both agreements; errors as of either end."""
    third = one.answer(carry(2, two.hello(carry(1, one.hello()))))
    fourth = None if third is None else carry(4, two.finish(carry(3, third)))
    settled = one.complete(fourth)
    assert two.agreement is not None
    return settled, two.agreement


def messages(one: ClientHandshake, two: ServerHandshake) -> list[bytes]:
    """What was said in a handshake that succeeds."""
    said: list[bytes] = []

    def carry(_number: int, message: bytes) -> bytes:
        said.append(message)
        return message

    shake(one, two, carry)
    return said


def changed(message: bytes, **by: Any) -> bytes:
    """A message with other fields."""
    return json.dumps({**json.loads(message), **by}, separators=(",", ":")).encode()
