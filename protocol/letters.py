"""Letters: notifications that come out of a mailbox with their own five frames, as they would be broadcast.

A letter is an item of `bundle` and, behind it, what is missing for the five frames but the header::

    frame        in a letter
    0 header     made by both ends out of sender, topic, number and key, so it says what the letter says
    1 serializer the item's
    2 content    the item's body; encrypted when the suite does that
    3 message id ``msgid``, of the time of sending and the sender's epoch
    4 signature  ``signature``; of nobody's session, so that it can be verified years later

A letter that could not be signed has neither id nor signature, and is refused by its reader.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import astuple

from .bundle import COPIED, MAX_ITEMS, Item, Mail, is_copied
from .errors import DecodeError, SerializeError
from .frames import MAX_CONTENT, MAX_MSGID, MAX_SIGNATURE
from .signing import Suite

BESIDE = 224
"""Bytes of a letter's frames beside content, topic and key, at most."""

_SEALED = bytes((Suite.AES256_GCM,))


class Letter(Item, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """A notification with its proof; see the module's docstring."""

    msgid: Annotated[bytes, Meta(max_length=MAX_MSGID)] = b""
    signature: Annotated[bytes, Meta(max_length=MAX_SIGNATURE)] = b""

    @property
    def sealed(self) -> bool:
        """Whether the body is encrypted."""
        return self.signature[:1] == _SEALED


class _ViewedLetter(Letter, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    body: Annotated[memoryview, Meta(max_length=MAX_CONTENT)]  # pyright: ignore[reportGeneralTypeIssues]


class Letters(Mail, array_like=True, frozen=True, forbid_unknown_fields=True):
    """As `Mail`, of letters."""

    items: Annotated[list[Letter], Meta(max_length=MAX_ITEMS)] = msgspec.field(default_factory=list)  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedLetters(Letters, array_like=True, frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[_ViewedLetter], Meta(max_length=MAX_ITEMS)] = msgspec.field(default_factory=list)  # pyright: ignore[reportIncompatibleVariableOverride]


_ENCODER = msgspec.msgpack.Encoder()
_SMALL = msgspec.msgpack.Decoder(Letters)
_ONE = msgspec.msgpack.Decoder(Letter)
_LARGE = msgspec.msgpack.Decoder(_ViewedLetters)


def encode(letters: object) -> bytes:
    """The bytes of letters; every body is copied once.

    Raises:
        SerializeError: for what are no letters, or a text or body that has no bytes.
    """
    if type(letters) is not Letters:
        raise SerializeError(f"only Letters can be encoded as such, not a {type(letters).__name__}")
    try:
        return _ENCODER.encode(letters)
    except Exception as error:  # of whatever stands in the fields
        raise SerializeError(f"letters cannot be encoded: {type(error).__name__}: {error}") from error


def item_of(franked: bytes) -> Item:
    """The item in the bytes of one letter of our own, which is not encrypted."""
    return Item(*astuple(_ONE.decode(franked))[:9])


def decode(data: bytes | bytearray | memoryview) -> Letters:
    """The letters in ``data``; of large ones, bodies over `COPIED` bytes are read-only views of it.

    Raises:
        DecodeError: for anything else, of insane types, numbers or lengths.
    """
    try:
        letters = _SMALL.decode(data) if is_copied(data) else _with_views(data)
    except Exception as error:  # msgspec lets those of Unicode and of recursion through
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise DecodeError(f"letters of {len(data)} bytes cannot be decoded: {reason}") from None
    for letter in letters.items:
        if letter.block or letter.size:
            raise DecodeError(f"letter {letter.number} of {letter.topic[:80]!r} lies in a block")
    return letters


def _with_views(data: bytes | bytearray | memoryview) -> Letters:
    viewed = _LARGE.decode(memoryview(data).cast("B").toreadonly())
    items = [_settled(each) for each in viewed.items]
    return Letters(
        viewed.first, items, viewed.lasts, viewed.lent, viewed.dropped, viewed.hurry,
        viewed.epoch, viewed.tenure, viewed.after, viewed.ranges,
    )  # fmt: skip


def _settled(letter: _ViewedLetter) -> Letter:
    fields = list(astuple(letter))
    if len(letter.body) <= COPIED:  # a small view would keep all the others
        fields[6] = bytes(letter.body)
    return Letter(*fields)


def size_beside(topic: str, key: str) -> int:
    """Bytes of a letter's frames beside its content, at most; of a topic or key that is not ASCII, about."""
    return BESIDE + len(topic) + 3 * len(key)
