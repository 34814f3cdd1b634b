"""Session: requests and replies of one connection between two agents, with all that is constant prepared.

A short cut through `Codec` for the message that is sent tens of thousands of times a second: small,
PZC01, pickle, GMAC or unsigned, between two ids and epochs that stay the same. It makes the very frames
that `Codec.encode` makes, and takes the frames that `Codec.open` would take; for everything else it
answers None, and the codec is asked. Nothing is decoded before the tag held, and what else is to be judged
before that (`AnsweringSession.verify` tells the time and counter to judge by). Only what a holder of the
key might have written in another way (an id in capitals, bytes behind a pickle) is not complained about.

::

    frame         constant                                     differs
    0 header      of a request; of a reply all but its own id  own id
    1 serializer  ``pickle``
    2 content                                                  all
    3 message id  epoch                                        time, counter
    4 signature   suite and key id                             tag

The methods are long and flat on purpose: on this path a call of a Python function costs as much as
a tenth of the whole message.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag

from . import serializers
from .frames import PZC01, Buffer, Kind, format_header
from .ids import COUNTER_BITS, Stamp
from .keyring import Key
from .signing import LARGE, Suite, parties

_SERIALIZER = b"pickle"
_MSGID_SIZE = 45
_OWN_SIZE = 32
_TAG_END = 17
_GMAC = bytes((Suite.AES256_GMAC,))
_LOW = (1 << 30) - 1
# Where the three parts of a nonce are in an id of 128 bits, once it was moved right by 32, 28 and 26 bits.
_NONCE_MS, _NONCE_HIGH, _NONCE_LOW = 0xFFFF_FFFF_FFFF << 48, 0xFFF << 36, _LOW << 6
_pack_sizes = struct.Struct(">III").pack


class Party(NamedTuple):
    """One end of the connection.

    Attributes:
        agent_id: its id.
        address: what is addressed to it, under the signatures of this connection.
        key: with which it signs; None without keys.
        epoch: of its messages.
    """

    agent_id: str
    address: str
    key: Key | None
    epoch: int


class _Way:
    """What is constant in one direction: of the bytes under the tag, and of frame 4."""

    __slots__ = ("aead", "before", "behind", "key_id", "loads", "receiver")

    def __init__(self, kind: Kind, sender: Party, receiver: Party, header: bytes) -> None:
        self.receiver = b"\0" + receiver.address.encode()
        self.before = self.behind = self.key_id = b""
        self.aead = None
        self.loads: Callable[[Buffer], Any] = partial(serializers.decode, "pickle", trusted=False)
        if sender.key is not None:
            if sender.key.trusted:
                self.loads = pickle.loads
            size = len(header) + (_OWN_SIZE + 1 if kind is Kind.REPLY else 0)
            start, names = parties(kind, Suite.AES256_GMAC, sender.key.key_id, receiver.address)
            self.before = start + _pack_sizes(size, len(_SERIALIZER), _MSGID_SIZE)
            self.behind = names + (b"" if kind is Kind.REPLY else header + _SERIALIZER)
            self.aead = sender.key.aead("aes256-gmac", sender.agent_id, sender.epoch)
            self.key_id = sender.key.key_id.encode()


def _stamp(own: int) -> Stamp:
    """The stamp in an id, which nobody has proved: it has only one right form."""
    return Stamp(own >> 80, (own >> 64 & 0xFFF) << 30 | own >> 32 & _LOW, own & 0xFFFFFFFF)


def _reply_header(sender: Party) -> bytes:
    """The header of a reply up to its own id."""
    return format_header(PZC01, sender.agent_id, "", 0)[:-2]


class AskingSession:
    """The end that asks.

    Args:
        own: this end.
        peer: the other one.
        sequence: of the requests.
        arrays: the other end reads ``buffers``.
        count: the next counter of this end's epoch.
    """

    def __init__(
        self, own: Party, peer: Party, sequence: int, arrays: bool, count: Callable[[], int]
    ) -> None:
        self._header = format_header(PZC01, own.agent_id, "", sequence)
        start = _reply_header(peer)
        self._out = _Way(Kind.REQUEST, own, peer, self._header)
        self._in = _Way(Kind.REPLY, peer, own, start)
        self._encode = serializers.encode_small if arrays else serializers.encode_pickle
        self._count = count
        self._prefix_of = (-1, -1)
        self._prefix = b""
        self._epoch = b"%08x" % own.epoch
        self._start, self._size = start, len(start) + _OWN_SIZE + 1
        self._own = slice(len(start), len(start) + _OWN_SIZE)
        self._peer_epoch = peer.epoch

    def ask(self, content: object, ms: int) -> list[Buffer] | None:
        """Frames of a request; None when it is not to be made here.

        Args:
            content: of the request.
            ms: Unix time in milliseconds.

        Raises:
            SerializeError: when the content cannot be expressed.
        """
        body = self._encode(content)
        if body is None or len(body) > LARGE:
            return None
        counter = self._count()
        high, low = counter >> 30, counter & _LOW
        if self._prefix_of != (ms, high):
            self._prefix_of = (ms, high)
            self._prefix = b"urn:uuid:%08x-%04x-8%03x-" % (ms >> 16, ms & 0xFFFF, high)
        msgid = b"%b%04x-%04x%b" % (self._prefix, 0x8000 | low >> 16, low & 0xFFFF, self._epoch)
        way = self._out
        if way.aead is None:
            return [self._header, _SERIALIZER, body, msgid, way.receiver]
        nonce = ((ms << COUNTER_BITS | counter) << 6).to_bytes(12, "big")
        whole = b"".join((way.before, len(body).to_bytes(8, "big"), way.behind, msgid, body))
        tag = way.aead.encrypt(nonce, b"", whole)
        return [self._header, _SERIALIZER, body, msgid, _GMAC + tag + way.key_id]

    def answer(self, frames: list[Buffer], msgid: Buffer) -> tuple[Any] | None:
        """Content of the reply to ``msgid``; None when it is not to be read here."""
        header, serializer, body, echoed, tag = frames
        if echoed != msgid or serializer != _SERIALIZER or len(body) > LARGE or len(header) != self._size:
            return None
        if type(header) is not bytes:
            return None
        try:
            own = int(header[self._own], 16)
        except ValueError:
            return None
        if own & 0xFFFFFFFF != self._peer_epoch or not header.startswith(self._start):
            return None
        way = self._in
        if way.aead is None:
            if tag != way.receiver or header != b"%b%b+" % (self._start, _stamp(own).hex().encode()):
                return None
            return (way.loads(body),)
        if tag[:1] != _GMAC or tag[_TAG_END:] != way.key_id:
            return None
        nonce = (own >> 32 & _NONCE_MS | own >> 28 & _NONCE_HIGH | own >> 26 & _NONCE_LOW).to_bytes(12, "big")
        size = len(body).to_bytes(8, "big")
        whole = b"".join((way.before, size, way.behind, header, _SERIALIZER, echoed, body))
        try:
            way.aead.decrypt(nonce, tag[1:_TAG_END], whole)
        except InvalidTag:
            return None
        return (way.loads(body),)


class AnsweringSession:
    """The end that answers.

    Args:
        own: this end.
        peer: the other one, as its first request proved it.
        header: of its requests.
        arrays: the other end reads ``buffers``.
        count: the next counter of this end's epoch.
    """

    def __init__(
        self, own: Party, peer: Party, header: bytes, arrays: bool, count: Callable[[], int]
    ) -> None:
        self._header = header
        self._start = _reply_header(own)
        self._in = _Way(Kind.REQUEST, peer, own, header)
        self._out = _Way(Kind.REPLY, own, peer, self._start)
        self._encode = serializers.encode_small if arrays else serializers.encode_pickle
        self._count = count
        self._epoch = own.epoch
        self._peer_epoch = peer.epoch

    def verify(self, frames: list[Buffer]) -> tuple[int, int] | None:
        """Time in milliseconds and counter of a request; None when it is not to be taken here."""
        header, serializer, body, msgid, tag = frames
        if header != self._header or serializer != _SERIALIZER or len(body) > LARGE:
            return None
        if type(msgid) is not bytes or len(msgid) != _MSGID_SIZE or not msgid.startswith(b"urn:uuid:"):
            return None
        try:
            own = int(msgid[9:].replace(b"-", b""), 16)
        except ValueError:
            return None
        if own & 0xFFFFFFFF != self._peer_epoch or own >> 128:
            return None
        ms, counter = own >> 80, (own >> 64 & 0xFFF) << 30 | own >> 32 & _LOW
        way = self._in
        if way.aead is None:
            ours = tag == way.receiver and _stamp(own).urn().encode() == msgid
            return (ms, counter) if ours else None
        if tag[:1] != _GMAC or tag[_TAG_END:] != way.key_id:
            return None
        nonce = ((ms << COUNTER_BITS | counter) << 6).to_bytes(12, "big")
        whole = b"".join((way.before, len(body).to_bytes(8, "big"), way.behind, msgid, body))
        try:
            way.aead.decrypt(nonce, tag[1:_TAG_END], whole)
        except InvalidTag:
            return None
        return ms, counter

    def decode(self, body: Buffer) -> Any:
        """Content of a verified request.

        Raises:
            Exception: whatever there is about a body that is no pickle.
        """
        return self._in.loads(body)

    def reply(self, content: object, msgid: Buffer, ms: int) -> list[Buffer] | None:
        """Frames of the reply to ``msgid``; None when it is not to be made here.

        Args:
            content: of the reply.
            msgid: of the request.
            ms: Unix time in milliseconds.

        Raises:
            SerializeError: when the content cannot be expressed.
        """
        body = self._encode(content)
        if body is None or len(body) > LARGE:
            return None
        counter = self._count()
        own = ms << 16 | 0x8000 | counter >> 30, 0x80000000 | counter & _LOW, self._epoch
        header = b"%b%016x%08x%08x+" % (self._start, *own)
        way = self._out
        if way.aead is None:
            return [header, _SERIALIZER, body, msgid, way.receiver]
        nonce = ((ms << COUNTER_BITS | counter) << 6).to_bytes(12, "big")
        size = len(body).to_bytes(8, "big")
        whole = b"".join((way.before, size, way.behind, header, _SERIALIZER, msgid, body))
        tag = way.aead.encrypt(nonce, b"", whole)
        return [header, _SERIALIZER, body, msgid, _GMAC + tag + way.key_id]
