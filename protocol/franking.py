"""Franking: letters of one topic as the bytes that go over the wire, made when they are published.

They say what those of `postmarks.Postmark` say. What lies before the number is hashed once for all
notifications of one size; what would be made in another way has no such short cut: other suites than
HMAC-SHA256, and keys of notifications. Contents of more than `SMALL` bytes are signed when somebody asks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from . import signing
from .batch import Begun, Prepared
from .bundle import Body
from .codec import Codec
from .correspondence import Kept
from .frames import PZC01, Kind, open_header
from .signing import Suite

SMALL = 4096
"""Bytes of a content that is signed at once, by whoever publishes it."""

_HMAC = Suite.HMAC_SHA256
_MSGID = 45
_TAG = 32
_FIELDS = b"\x9b"  # an array of eleven
_WIDE = b"\xcf"  # a number of eight bytes

_encode = msgspec.msgpack.encode


class _Shape(NamedTuple):
    """What letters share whose number and content have as many bytes."""

    begun: Begun | None
    pack: Callable[..., bytes]
    before_body: bytes


class Franking:
    """Makes letters of one topic of one agent and epoch, without a key.

    Args:
        codec: whose key counts; `broadcast.is_usual` says whether it can be had.
        sender: agent id.
        topic: neither empty nor reserved.
        serializer: of all contents.
        urn: gives a fresh message id of the epoch for a time in Unix milliseconds.
    """

    __slots__ = ("_after_number", "_before_id", "_front", "_key_id", "_mark", "_name", "_opening", "_parties",
                 "_prepared", "_shapes", "_urn")  # fmt: skip

    def __init__(
        self, codec: Codec, sender: str, topic: str, serializer: str, urn: Callable[[int], str]
    ) -> None:
        signer = None if codec.keyring is None else codec.keyring.publishing
        key_id = "" if signer is None else signer.key_id
        self._parties = signing.parties(Kind.NOTIFICATION, _HMAC, key_id, "")
        self._opening = open_header(PZC01, sender, topic)
        self._name = serializer.encode()
        self._prepared = None if signer is None else Prepared(signer.hmac_key)
        suite, self._key_id = signing.sealer(signer, _HMAC, Kind.NOTIFICATION, sender, "", 0).mark
        signature = len(suite) + (0 if signer is None else _TAG) + len(self._key_id)
        self._front = _FIELDS + _encode(topic) + _WIDE
        self._after_number = _encode("") + _WIDE
        self._before_id = _encode(0) + _encode(0) + _bytes_head(_MSGID)
        self._mark = _bytes_head(signature) + suite
        self._urn = urn
        self._shapes: Kept[_Shape] = Kept()

    def letter(self, number: int, sent_ms: int, body: Body) -> bytes:
        """The letter of a notification, as one of the items of `letters.Letters`."""
        digits, msgid = b"%d+" % number, self._urn(sent_ms).encode()
        begun, pack, before_body = self._shapes.get((len(digits), len(body))) or self._meet(digits, len(body))
        tag = b""
        if begun is not None and self._prepared is not None:
            tag = self._prepared.finish(begun, b"".join((digits, self._name, msgid, body)))
        return pack(
            self._front, number, self._after_number, sent_ms, before_body, body, self._before_id, msgid,
            self._mark, tag, self._key_id,
        )  # fmt: skip

    def _meet(self, digits: bytes, size: int) -> _Shape:
        before_body = _encode(0) + _encode(self._name.decode()) + _bytes_head(size)
        begun, tag = None, 0
        if self._prepared is not None:
            rest = digits + self._name + bytes(_MSGID)
            whole = signing.covered(self._parties, self._opening + digits, self._name, bytes(_MSGID), size)
            begun, tag = self._prepared.begin(whole[: len(whole) - len(rest)]), _TAG
        layout = struct.Struct(
            f">{len(self._front)}sQ{len(self._after_number)}sQ{len(before_body)}s{size}s{len(self._before_id)}s"
            f"{_MSGID}s{len(self._mark)}s{tag}s{len(self._key_id)}s"
        )
        shape = _Shape(begun, layout.pack, before_body)
        self._shapes.keep((len(digits), size), shape)
        return shape


def _bytes_head(size: int) -> bytes:
    """What stands before so many bytes."""
    whole = _encode(bytes(size))
    return whole[: len(whole) - size]
