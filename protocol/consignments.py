"""Consignments: the bundles of one connection, signed and verified with all that is constant prepared.

A short cut through `Codec` for small bundles, signed by GMAC, that all answer the same request. It makes the
very frames that `Codec.encode` makes, and takes frames that `Codec.open` would take; for everything else it
answers None, and the codec is asked. Nothing is decoded before the tag held.

::

    frame         constant                                     differs
    0 header      all but its own id                           own id
    1 serializer  ``bundle``
    2 content                                                  all
    3 message id  all: that of the request for the link
    4 signature   suite and key id                             tag
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from cryptography.exceptions import InvalidTag

from .frames import PZC01, Buffer, Kind, format_header
from .ids import COUNTER_BITS
from .keyring import Key
from .signing import LARGE, Suite, parties

_SERIALIZER = b"bundle"
_OWN_SIZE = 32
_TAG_END = 17
_GMAC = bytes((Suite.AES256_GMAC,))
_LOW = (1 << 30) - 1
# Where the three parts of a nonce are in an id of 128 bits, once it was moved right by 32, 28 and 26 bits.
_NONCE_MS, _NONCE_HIGH, _NONCE_LOW = 0xFFFF_FFFF_FFFF << 48, 0xFFF << 36, _LOW << 6
_pack_sizes = struct.Struct(">III").pack


class Consignment:
    """One direction of one connection; the sender calls `seal`, the receiver `open`.

    Args:
        sender: agent id of who sends the bundles.
        key: with which they are signed.
        epoch: of their sender.
        receiver: what they are addressed to under the signature.
        msgid: frame 3 of the request that they answer.
        count: the next counter of the sender's epoch; the receiver needs none.
    """

    def __init__(
        self,
        sender: str,
        key: Key,
        epoch: int,
        receiver: str,
        msgid: bytes,
        count: Callable[[], int] | None = None,
    ) -> None:
        self._start = format_header(PZC01, sender, "", 0)[:-2]
        self._size = len(self._start) + _OWN_SIZE + 1
        self._own = slice(len(self._start), self._size - 1)
        self._epoch = epoch
        self._msgid = msgid
        self._count = count
        start, self._names = parties(Kind.REPLY, Suite.AES256_GMAC, key.key_id, receiver)
        self._before = start + _pack_sizes(self._size, len(_SERIALIZER), len(msgid))
        self._aead = key.aead("aes256-gmac", sender, epoch)
        self._key_id = key.key_id.encode()
        self._behind = _SERIALIZER + msgid

    def seal(self, body: bytes, ms: int) -> list[Buffer] | None:
        """Frames of a bundle; None when they are not to be made here.

        Args:
            body: the encoded bundle.
            ms: Unix time in milliseconds.
        """
        if len(body) > LARGE or self._count is None:
            return None
        counter = self._count()
        own = ms << 16 | 0x8000 | counter >> 30, 0x80000000 | counter & _LOW, self._epoch
        header = b"%b%016x%08x%08x+" % (self._start, *own)
        nonce = ((ms << COUNTER_BITS | counter) << 6).to_bytes(12, "big")
        size = len(body).to_bytes(8, "big")
        whole = b"".join((self._before, size, self._names, header, self._behind, body))
        tag = self._aead.encrypt(nonce, b"", whole)
        return [header, _SERIALIZER, body, self._msgid, _GMAC + tag + self._key_id]

    def open(self, frames: Sequence[Buffer]) -> Buffer | None:
        """The body of a verified bundle; None when the frames are not to be opened here."""
        header, serializer, body, msgid, tag = frames
        if msgid != self._msgid or serializer != _SERIALIZER or len(body) > LARGE:
            return None
        if type(header) is not bytes or type(tag) is not bytes or len(header) != self._size:
            return None
        if tag[:1] != _GMAC or tag[_TAG_END:] != self._key_id:
            return None
        try:
            own = int(header[self._own], 16)
        except ValueError:
            return None
        if own & 0xFFFFFFFF != self._epoch or not header.startswith(self._start):
            return None
        nonce = (own >> 32 & _NONCE_MS | own >> 28 & _NONCE_HIGH | own >> 26 & _NONCE_LOW).to_bytes(12, "big")
        size = len(body).to_bytes(8, "big")
        whole = b"".join((self._before, size, self._names, header, self._behind, body))
        try:
            self._aead.decrypt(nonce, tag[1:_TAG_END], whole)
        except InvalidTag:
            return None
        return body
