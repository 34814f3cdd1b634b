"""Messages of one pair of agents, in both dialects."""

from __future__ import annotations

from typing import Any

import pytest

from pzc.protocol.codec import Codec
from pzc.protocol.ids import MessageIds, parse_hex, parse_urn
from pzc.protocol.keyring import Keyring
from pzc.protocol.signing import SUITES

NOW = 1_700_000_000_000
AGENT, PEER = "a" * 32, "b" * 32
RING = Keyring.from_key("a long secret of lab-secret")
IDS = MessageIds(7)
PIZCO_ID = "urn:uuid:9f717295-2ba7-4cab-9586-9de68210bb03"
EITHER_RING = pytest.mark.parametrize("ring", [None, RING], ids=["unsigned", "signed"])
EVERY_SUITE = pytest.mark.parametrize("suite", SUITES)


def encode(codec: Codec, topic: str = "", content: object = "x", **options: Any) -> list[bytes]:
    """A message of `AGENT`, sent at `NOW`; ``msgid`` is its own id, or with ``own_id`` that of the request."""
    msgid, own = options.pop("msgid", None), options.pop("own_id", None)
    if msgid is not None:
        options["stamp"] = parse_urn(msgid) if own is None else parse_hex(own)
    frames = codec.encode(AGENT, topic, content, **{"stamp": IDS.next(NOW), **options}, msgid=own and msgid)
    return [bytes(frame) for frame in frames]


def pizco(codec: Codec, content: object = "x", **options: Any) -> list[bytes]:
    """A message as an original Pizco peer sends it."""
    options = {"msgid": PIZCO_ID, "dialect": "PZC00", "stamp": IDS.next(NOW), **options}
    return [bytes(frame) for frame in codec.encode("tcp://127.0.0.1:5", "topic", content, **options)]


def spoiled(frames: list[bytes]) -> list[bytes]:
    """The same with another signature."""
    tag = bytearray(frames[4])
    tag[1] ^= 1
    return [*frames[:4], bytes(tag)]
