"""Bundle: notifications that go together over a link, as plain structs and never as a pickle.

MessagePack arrays in the order of the fields, nothing more and nothing less in them::

    Bundle  first, items, lasts, lent, dropped, hurry
    Item    topic, number, key, sent_ms, lost, serializer, body, block, size
    Last    topic, number, lost
    Mail    the fields of a Bundle, then epoch, tenure, after, ranges
    Range   first_number, last_number, topic, first, last, evicted

Fields at the end may be missing where they have a default. The body of an item is encoded by itself and
stays bytes here: whoever receives it looks at the item's serializer first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import astuple

from .errors import DecodeError, SerializeError
from .frames import MAX_CONTENT, MAX_HEADER, MAX_SERIALIZER

MAX_ITEMS = 10_000
"""Items of a bundle; as many lasts, and as many dropped blocks."""

MAX_RANGES = 1_000_000
"""Evicted ranges that are told together."""

MAX_NUMBER = (1 << 53) - 1
"""The largest number that any field of a bundle has."""

MAX_BLOCK = (1 << 31) - 1
"""The largest id of a block."""

COPIED = 1 << 18
"""Bodies up to this many bytes are copies of their own; larger ones are views of the received bundle."""

_COPIED_ITEM = 1 << 14
"""Bytes of an item, on average, up to which all bodies are copied: quicker than to look at each."""

_NUMBERS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}

if TYPE_CHECKING:
    Body = bytes | bytearray | memoryview
else:
    Body = bytes  # what comes in; out go views as well

B = TypeVar("B", bound="Bundle")

_Number = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
_Block = Annotated[int, Meta(ge=0, le=MAX_BLOCK)]
_Size = Annotated[int, Meta(ge=0, le=MAX_CONTENT)]
_Name = Annotated[str, Meta(min_length=1, max_length=MAX_HEADER)]
_Key = Annotated[str, Meta(max_length=MAX_HEADER)]
_Serializer = Annotated[str, Meta(max_length=MAX_SERIALIZER)]
_Content = Meta(max_length=MAX_CONTENT)
_Limit = Meta(max_length=MAX_ITEMS)


class Item(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """A notification.

    Attributes:
        topic: at most 2048 characters, not empty.
        number: in its topic, from 1.
        key: what it is about, mostly empty; at most 2048 characters.
        sent_ms: the publisher's Unix time in milliseconds.
        lost: notifications of the topic that were dropped on this link since the last one was told of.
        serializer: of the body.
        body: the content; empty when it lies in a block.
        block: id of the block whose first bytes are the content; 0 when it is the body.
        size: bytes of the content in the block; 0 without one.
    """

    topic: _Name
    number: _Number
    key: _Key
    sent_ms: _Number
    lost: _Number
    serializer: _Serializer
    body: Annotated[Body, _Content]
    block: _Block = 0
    size: _Size = 0


class Last(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """The last number of a topic, for a reader that did not get it; ``lost`` as that of `Item`."""

    topic: _Name
    number: _Number
    lost: _Number


class Bundle(Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What goes over a link at once.

    Attributes:
        first: link number of the first item, or of the next one to come.
        items: with link numbers ``first``, ``first + 1`` and so on; at most 10 000.
        lasts: topics whose last number is not that of an item.
        lent: id of the block whose descriptor comes with this message; 0 without one.
        dropped: ids of blocks that the publisher let go of.
        hurry: somebody waits until the reader is done with an item of it.
    """

    first: _Number
    items: Annotated[list[Item], _Limit] = []
    lasts: Annotated[list[Last], _Limit] = []
    lent: _Block = 0
    dropped: Annotated[list[_Block], _Limit] = []
    hurry: bool = False


class Range(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """Messages of a topic that a mailbox evicted; fields as those of `delivery.mail.Lost`."""

    first_number: _Number
    last_number: _Number
    topic: _Name
    first: _Number
    last: _Number
    evicted: _Number


class Mail(Bundle, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What comes out of a mailbox at once; ``first`` and ``items`` with numbers of the mailbox.

    Attributes:
        epoch: of the publisher.
        tenure: of the mailbox.
        after: every number above it is told of.
        ranges: what was evicted; at most 1 000 000.
    """

    epoch: _Number = 0
    tenure: _Number = 0
    after: _Number = 0
    ranges: Annotated[list[Range], Meta(max_length=MAX_RANGES)] = []


class _ViewedItem(Item, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    body: Annotated[memoryview, _Content]


class _ViewedBundle(Bundle, array_like=True, frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[_ViewedItem], _Limit] = []  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedMail(Mail, array_like=True, frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[_ViewedItem], _Limit] = []  # pyright: ignore[reportIncompatibleVariableOverride]


_ENCODER = msgspec.msgpack.Encoder()
_SMALL = msgspec.msgpack.Decoder(Bundle)
_LARGE = msgspec.msgpack.Decoder(_ViewedBundle)
_SMALL_MAIL = msgspec.msgpack.Decoder(Mail)
_LARGE_MAIL = msgspec.msgpack.Decoder(_ViewedMail)


def encode(bundle: Bundle) -> bytes:
    """The bytes of a bundle, or of mail; every body is copied once.

    Raises:
        SerializeError: for what is no bundle, or a text or body that has no bytes.
    """
    if type(bundle) is not Bundle and type(bundle) is not Mail:
        raise SerializeError(f"only a Bundle can be encoded as one, not a {type(bundle).__name__}")
    try:
        return _ENCODER.encode(bundle)
    except Exception as error:  # of whatever stands in the fields
        raise SerializeError(f"the bundle cannot be encoded: {type(error).__name__}: {error}") from error


def is_copied(data: bytes | bytearray | memoryview) -> bool:
    """Whether every body in a bundle, mail or letters is to be a copy of its own."""
    size = len(data)
    return size <= COPIED or size <= _COPIED_ITEM * _count(bytes(data[:16]))


def _count(head: bytes) -> int:
    """The items of what begins so; 0 for anything unusual."""
    at = 2 + _NUMBERS.get(head[1], 0)  # behind the first of its fields, which is a number
    if head[at] & 0xF0 == 0x90:
        return head[at] & 0x0F
    return int.from_bytes(head[at + 1 : at + 3]) if head[at] == 0xDC else 0


def decode(data: bytes | bytearray | memoryview) -> Bundle:
    """The bundle in ``data``; of large ones, bodies over `COPIED` bytes are read-only views of it.

    Raises:
        DecodeError: for anything but a bundle of sane types, numbers and lengths.
    """
    try:
        bundle = _SMALL.decode(data) if is_copied(data) else _with_views(data)
    except Exception as error:  # msgspec lets those of Unicode and of recursion through
        raise _unreadable("bundle", data, error) from None
    return _checked(bundle)


def decode_mail(data: bytes | bytearray | memoryview) -> Mail:
    """The mail in ``data``, as `decode`."""
    try:
        mail = _SMALL_MAIL.decode(data) if is_copied(data) else _mail_with_views(data)
    except Exception as error:
        raise _unreadable("mail", data, error) from None
    return _checked(mail)


def _unreadable(what: str, data: bytes | bytearray | memoryview, error: Exception) -> DecodeError:
    reason = f"{type(error).__name__}: {str(error)[:200]}"
    return DecodeError(f"a {what} of {len(data)} bytes cannot be decoded: {reason}")


def _checked(bundle: B) -> B:
    for item in bundle.items:
        if (item.block or item.size) and (not item.block or len(item.body)):
            raise DecodeError(f"item {item.number} of {item.topic[:80]!r} has no content, or two")
    return bundle


def _with_views(data: bytes | bytearray | memoryview) -> Bundle:
    viewed = _LARGE.decode(memoryview(data).cast("B").toreadonly())
    items = [_settled(*astuple(item)) for item in viewed.items]
    return Bundle(viewed.first, items, viewed.lasts, viewed.lent, viewed.dropped, viewed.hurry)


def _mail_with_views(data: bytes | bytearray | memoryview) -> Mail:
    viewed = _LARGE_MAIL.decode(memoryview(data).cast("B").toreadonly())
    items = [_settled(*astuple(item)) for item in viewed.items]
    return Mail(
        viewed.first,
        items,
        epoch=viewed.epoch,
        tenure=viewed.tenure,
        after=viewed.after,
        ranges=viewed.ranges,
    )


def _settled(
    topic: str, number: int, key: str, sent_ms: int, lost: int, serializer: str, body: memoryview,
    block: int, size: int,
) -> Item:  # fmt: skip
    # A small view would keep the whole bundle.
    content = body if len(body) > COPIED else bytes(body)
    return Item(topic, number, key, sent_ms, lost, serializer, content, block, size)
