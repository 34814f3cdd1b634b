"""Bundle: notifications that go together over a link, as plain structs and never as a pickle.

MessagePack arrays in the order of the fields, nothing more and nothing less in them::

    Bundle  first, items, lasts, lent, dropped, hurry
    Item    topic, number, key, sent_ms, lost, serializer, body, block, size
    Last    topic, number, lost, withdrawn
    Mail    the fields of a Bundle, then epoch, tenure, after, ranges
    Range   first_number, last_number, topic, first, last, evicted, key
    Record  the fields of an Item, then msgid, signature
    Signed  the fields of Mail, with a Record for every Item

Fields at the end may be missing where they have a default. The body of an item is encoded by itself and
stays bytes here: whoever receives it looks at the item's serializer first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import astuple

from .errors import DecodeError, SerializeError
from .frames import MAX_CONTENT, MAX_HEADER, MAX_MSGID, MAX_SERIALIZER, MAX_SIGNATURE
from .signing import Suite

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

BESIDE = 224
"""Bytes of a record's frames beside content, topic and key, at most."""

_SEALED = bytes((Suite.AES256_GCM,))
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
    """The last number of a topic, for a reader that did not get it; ``lost`` as that of `Item`.

    ``withdrawn``: its publisher does not offer it any more.
    """

    topic: _Name
    number: _Number
    lost: _Number
    withdrawn: bool = False


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
    key: _Key = ""


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

    items: Annotated[list[Record], _Limit] = []  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedItem(Item, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    body: Annotated[memoryview, _Content]


class _ViewedBundle(Bundle, array_like=True, frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[_ViewedItem], _Limit] = []  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedMail(Mail, array_like=True, frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[_ViewedItem], _Limit] = []  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedRecord(Record, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    body: Annotated[memoryview, _Content]


class _ViewedSigned(Signed, array_like=True, frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[_ViewedRecord], _Limit] = []  # pyright: ignore[reportIncompatibleVariableOverride]


_BODY = Item.__struct_fields__.index("body")
_ITEMS = Bundle.__struct_fields__.index("items")
_ENCODER = msgspec.msgpack.Encoder()
_Decoder = msgspec.msgpack.Decoder
_DECODERS: dict[type[Bundle], tuple[_Decoder[Any], _Decoder[Any], type[Item]]] = {
    Bundle: (_Decoder(Bundle), _Decoder(_ViewedBundle), Item),
    Mail: (_Decoder(Mail), _Decoder(_ViewedMail), Item),
    Signed: (_Decoder(Signed), _Decoder(_ViewedSigned), Record),
}


def encode(bundle: object) -> bytes:
    """The bytes of a bundle, of mail, or of signed mail; every body is copied once.

    Raises:
        SerializeError: for what is none of them, or a text or body that has no bytes.
    """
    if type(bundle) not in _DECODERS:
        raise SerializeError(f"only a Bundle can be encoded as one, not a {type(bundle).__name__}")
    try:
        return _ENCODER.encode(bundle)
    except Exception as error:  # of whatever stands in the fields
        raise SerializeError(f"the bundle cannot be encoded: {type(error).__name__}: {error}") from error


def decode(data: bytes | bytearray | memoryview, kind: type[B]) -> B:
    """The bundle of that kind in ``data``; of large ones, bodies over `COPIED` bytes are views of it.

    Raises:
        DecodeError: for anything but a bundle of sane types, numbers and lengths.
    """
    small, large, item = _DECODERS[kind]
    try:
        if _is_copied(data):
            bundle: B = small.decode(data)
        else:
            fields = list(astuple(large.decode(memoryview(data).cast("B").toreadonly())))
            fields[_ITEMS] = [_settled(each, item) for each in fields[_ITEMS]]
            bundle = kind(*fields)
    except Exception as error:  # msgspec lets those of Unicode and of recursion through
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        what = kind.__name__.lower()
        raise DecodeError(f"a {what} of {len(data)} bytes cannot be decoded: {reason}") from None
    for each in bundle.items:
        if (each.block or each.size) and (kind is Signed or not each.block or len(each.body)):
            raise DecodeError(f"item {each.number} of {each.topic[:80]!r} has no content, or two")
    return bundle


def _is_copied(data: bytes | bytearray | memoryview) -> bool:
    size = len(data)
    return size <= COPIED or size <= _COPIED_ITEM * _count(bytes(data[:16]))


def _count(head: bytes) -> int:
    """The items of what begins so; 0 for anything unusual."""
    at = 2 + _NUMBERS.get(head[1], 0)  # behind the first of its fields, which is a number
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
