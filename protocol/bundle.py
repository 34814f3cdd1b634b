"""Bundle: what comes out of a mailbox, as plain structs and never as a pickle.

MessagePack arrays in the order of the fields, nothing more and nothing less in them::

    Item    topic, number, key, sent_ms, serializer, body
    Mail    first, items, epoch, tenure, after, ranges, withdrawn
    Range   first_number, last_number, topic, first, last, evicted, key
    Record  the fields of an Item, then msgid, signature
    Signed  the fields of Mail, with a Record for every Item

Fields at the end may be missing where they have a default. The body of an item is encoded by itself and
stays bytes here: whoever receives it looks at the item's serializer first.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import astuple

from .errors import DecodeError, SerializeError
from .frames import MAX_MSGID, MAX_SIGNATURE
from .link_messages import COPIED, Body, Content, Key, Most, Name, Number, SerializerName
from .signing import Suite

MAX_RANGES = 1_000_000
"""Evicted ranges that are told together."""

_COPIED_ITEM = 1 << 14
"""Bytes of an item, on average, up to which all bodies are copied: quicker than to look at each."""

BESIDE = 224
"""Bytes of a record's frames beside content, topic and key, at most."""

_SEALED = bytes((Suite.AES256_GCM,))
_NUMBERS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}

B = TypeVar("B", bound="Mail")


class Item(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """A notification.

    Attributes:
        topic: at most 2048 characters, not empty.
        number: in its topic, from 1.
        key: what it is about, mostly empty; at most 2048 characters.
        sent_ms: the publisher's Unix time in milliseconds.
        serializer: of the body.
        body: the content.
    """

    topic: Name
    number: Number
    key: Key
    sent_ms: Number
    serializer: SerializerName
    body: Annotated[Body, Content]


class Range(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """Messages of a topic that a mailbox evicted; fields as those of `delivery.mail.Lost`."""

    first_number: Number
    last_number: Number
    topic: Name
    first: Number
    last: Number
    evicted: Number
    key: Key = ""


class Mail(Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What comes out of a mailbox at once.

    Attributes:
        first: number of the first item in the mailbox; the others follow without a hole.
        items: at most 10 000.
        epoch: of the publisher.
        tenure: of the mailbox.
        after: every number above it is told of.
        ranges: what was evicted; at most 1 000 000.
        withdrawn: topics that are not offered any more.
    """

    first: Number
    items: Annotated[list[Item], Most] = []
    epoch: Number = 0
    tenure: Number = 0
    after: Number = 0
    ranges: Annotated[list[Range], Meta(max_length=MAX_RANGES)] = []
    withdrawn: Annotated[list[Name], Most] = []


class Record(Item, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """A notification with what is missing in an item for its five frames, but the header; see `records`.

    One that could not be signed has neither id nor signature, and is refused by its reader.

    Attributes:
        msgid: frame 3, of the time of sending and the sender's epoch.
        signature: frame 4; of nobody's session, so that it can be verified years later.
    """

    msgid: Annotated[bytes, Meta(max_length=MAX_MSGID)] = b""
    signature: Annotated[bytes, Meta(max_length=MAX_SIGNATURE)] = b""

    @property
    def sealed(self) -> bool:
        """Whether the body is encrypted."""
        return self.signature[:1] == _SEALED


class Signed(Mail, array_like=True, frozen=True, forbid_unknown_fields=True):
    """As `Mail`, of records."""

    items: Annotated[list[Record], Most] = []  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedItem(Item, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    body: Annotated[memoryview, Content]


class _ViewedMail(Mail, array_like=True, frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[_ViewedItem], Most] = []  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedRecord(Record, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    body: Annotated[memoryview, Content]


class _ViewedSigned(Signed, array_like=True, frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[_ViewedRecord], Most] = []  # pyright: ignore[reportIncompatibleVariableOverride]


_BODY = Item.__struct_fields__.index("body")
_ENCODER = msgspec.msgpack.Encoder()
_Decoder = msgspec.msgpack.Decoder
_DECODERS: dict[type[Mail], tuple[_Decoder[Any], _Decoder[Any], type[Item]]] = {
    Mail: (_Decoder(Mail), _Decoder(_ViewedMail), Item),
    Signed: (_Decoder(Signed), _Decoder(_ViewedSigned), Record),
}


def encode(bundle: object) -> bytes:
    """The bytes of mail, or of signed mail; every body is copied once.

    Raises:
        SerializeError: for what is none of them, or a text or body that has no bytes.
    """
    if type(bundle) not in _DECODERS:
        raise SerializeError(f"only Mail can be encoded as one, not a {type(bundle).__name__}")
    try:
        return _ENCODER.encode(bundle)
    except Exception as error:  # of whatever stands in the fields
        raise SerializeError(f"the bundle cannot be encoded: {type(error).__name__}: {error}") from error


def decode(data: bytes | bytearray | memoryview, kind: type[B]) -> B:
    """The mail of that kind in ``data``; of large ones, bodies over `COPIED` bytes are views of it.

    Raises:
        DecodeError: for anything but mail of sane types, numbers and lengths.
    """
    small, large, item = _DECODERS[kind]
    try:
        at = kind.__struct_fields__.index("items")
        if _is_copied(data, at):
            bundle: B = small.decode(data)
        else:
            fields = list(astuple(large.decode(memoryview(data).cast("B").toreadonly())))
            fields[at] = [_settled(each, item) for each in fields[at]]
            bundle = kind(*fields)
    except Exception as error:  # msgspec lets those of Unicode and of recursion through
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        what = kind.__name__.lower()
        raise DecodeError(f"a {what} of {len(data)} bytes cannot be decoded: {reason}") from None
    return bundle


def _is_copied(data: bytes | bytearray | memoryview, before: int) -> bool:
    size = len(data)
    return size <= COPIED or size <= _COPIED_ITEM * _count(bytes(data[:16]), before)


def _count(head: bytes, before: int) -> int:
    """The items of what begins so, behind ``before`` numbers; 0 for anything unusual."""
    at = 1
    for _ in range(before):
        at += 1 + _NUMBERS.get(head[at], 0)
    if head[at] & 0xF0 == 0x90:
        return head[at] & 0x0F
    return int.from_bytes(head[at + 1 : at + 3]) if head[at] == 0xDC else 0


def _settled(viewed: Item, kind: type[Item]) -> Item:
    fields = list(astuple(viewed))
    if len(viewed.body) <= COPIED:  # a small view would keep the whole bundle
        fields[_BODY] = bytes(viewed.body)
    return kind(*fields)


def size_beside(topic: str, key: str) -> int:
    """Bytes of a record's frames beside its content, at most; of a topic or key that is not ASCII, about."""
    return BESIDE + len(topic) + 3 * len(key)
