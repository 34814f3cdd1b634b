"""Binding: the keys and counters of one connection.

Every message of a direction has a number, from 0, that goes under its tag and does not travel: both ends
count. What a tag covers begins with the *front*: the head of `HEAD`, header, serializer name and message id,
as they lie in a stream.

::

    frame 4   suite (1 byte) | tag
    HMAC      HMAC-SHA256(key of the direction, counter (8 bytes, big-endian) | front | content)
    GCM       AES-256-GCM, nonce: 4 zero bytes | counter (8 bytes, big-endian); front is associated data
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .errors import PeerLost
from .frames import Buffer
from .signing import TAG_SIZE, Suite, mismatch

HEAD = struct.Struct("<BBHHHHHQ")
"""Version, flags, bytes of header, serializer, message id and signature, 0, bytes of the content."""

VERSION = 2
MOST_MESSAGES = 1 << 32
PIECE = 1 << 18
"""Bytes of a large content that are sealed, and sent, at once."""

Content = Buffer | tuple[Buffer, ...]
Opened = Callable[[memoryview, bytes], None]
_NONE, _HMAC, _GCM = map(int, (Suite.NONE, Suite.HMAC_SHA256, Suite.AES256_GCM))
_BLOCK = 64  # of SHA-256
_counter = struct.Struct(">Q").pack


class Binding:
    """Seals what one end sends and opens what it receives; each direction for one thread.

    Nothing is counted when `seal` or `open` raise.

    Args:
        suite: number of a `Suite`.
        send_key, receive_key: 32 bytes each; not used without a suite.

    Attributes:
        sent, received: messages so far.
        signature_size: bytes of frame 4 on a stream.
    """

    def __init__(self, suite: int, send_key: bytes, receive_key: bytes) -> None:
        self.suite = int(suite)
        self.sent = self.received = 0
        self.signature_size = 1 + TAG_SIZE[Suite(suite)]
        self._mark = bytes((self.suite,))
        if self.suite == _HMAC:  # keyed once: a message copies the two states
            self._send_inner, self._send_outer = _keyed(send_key)
            self._receive_inner, self._receive_outer = _keyed(receive_key)
        elif self.suite == _GCM:
            self._encrypt, self._decrypt = AESGCM(send_key).encrypt, AESGCM(receive_key).decrypt

    def seal(self, front: bytes, parts: tuple[Buffer, ...]) -> tuple[tuple[Buffer, ...], bytes]:
        """Content as it travels, and frame 4, of the next message; PeerLost after `MOST_MESSAGES`."""
        number = self.sent
        if number >= MOST_MESSAGES:
            raise used_up()
        if self.suite == _HMAC:
            inner, outer = self._send_inner.copy(), self._send_outer.copy()
            inner.update(_counter(number) + front)
            for part in parts:
                inner.update(part)
            outer.update(inner.digest())
            signature = self._mark + outer.digest()
        elif self.suite == _GCM:
            sealed = memoryview(self._encrypt(bytes(4) + _counter(number), b"".join(parts), front))
            parts, signature = (sealed[:-16],), self._mark + sealed[-16:]
        else:
            signature = self._mark
        self.sent = number + 1
        return parts, signature

    def open(self, front: Buffer, content: Buffer, signature: bytes) -> Buffer:
        """Content in clear of the next message, once the tag holds.

        Raises:
            SignatureError: when it does not.
            PeerLost: after `MOST_MESSAGES`.
        """
        number = self.received
        if number >= MOST_MESSAGES:
            raise used_up()
        if self.suite == _HMAC:
            inner, outer = self._receive_inner.copy(), self._receive_outer.copy()
            inner.update(_counter(number) + front)
            inner.update(content)
            outer.update(inner.digest())
            if not compare_digest(self._mark + outer.digest(), signature):
                raise mismatch()
        elif len(signature) != self.signature_size or signature[0] != self.suite:
            raise mismatch()
        elif self.suite == _GCM:
            try:
                content = self._decrypt(
                    bytes(4) + _counter(number), b"".join((content, signature[1:])), front
                )
            except InvalidTag:
                raise mismatch() from None
        self.received = number + 1
        return content

    def seal_pieces(self, front: bytes, parts: tuple[Buffer, ...]) -> Iterator[Buffer]:
        """As `seal`, for a large content: pieces as they travel, signed when asked for, then frame 4."""
        if self.suite != _HMAC:
            sealed, signature = self.seal(front, parts)
            yield from (*sealed, signature)
            return
        if self.sent >= MOST_MESSAGES:
            raise used_up()
        inner, outer = self._send_inner.copy(), self._send_outer.copy()
        inner.update(_counter(self.sent) + front)
        self.sent += 1
        for part in map(memoryview, parts):
            for at in range(0, len(part), PIECE):
                inner.update(part[at : at + PIECE])
                yield part[at : at + PIECE]
        outer.update(inner.digest())
        yield self._mark + outer.digest()

    def opening(self, front: bytes) -> tuple[Callable[[memoryview], object], Opened]:
        """As `open`, for a large content: what takes each piece, then what takes all of it and frame 4."""
        if self.suite != _HMAC:
            return len, partial(self._open_whole, front)
        if self.received >= MOST_MESSAGES:
            raise used_up()
        inner, outer = self._receive_inner.copy(), self._receive_outer.copy()
        inner.update(_counter(self.received) + front)

        def judge(_content: memoryview, signature: bytes) -> None:
            outer.update(inner.digest())
            if not compare_digest(self._mark + outer.digest(), signature):
                raise mismatch()
            self.received += 1

        return inner.update, judge

    def _open_whole(self, front: bytes, content: memoryview, signature: bytes) -> None:
        clear = self.open(front, content, signature)
        if clear is not content:
            content[:] = clear


def used_up() -> PeerLost:
    """The error of a binding that may not be used any more."""
    return PeerLost("this connection has carried 2**32 messages: a new connection is needed")


def _keyed(key: bytes) -> tuple[Any, Any]:
    """States of SHA-256 before and after a message, as HMAC (RFC 2104) has them."""
    padded = key.ljust(_BLOCK, b"\0")
    inner, outer = (sha256(bytes(each ^ pad for each in padded)) for pad in (0x36, 0x5C))
    return inner, outer
