"""Link messages: what a publisher says over a link, as plain structs and never as a pickle.

MessagePack arrays in the order of the fields, nothing more and nothing less in them::

    Notify  first, runs, losses, ended, lent, dropped, hurry
    Run     topic, interests, rows
    Row     number, sent_ms, key, serializer, body, block, size
    Loss    interest, topic, at, total
    Ended   interest, reason, stays

Fields at the end may be missing where they have a default. The body of a row is encoded by itself and stays
bytes here: whoever receives it looks at the row's serializer first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import astuple

from .errors import DecodeError, SerializeError
from .frames import MAX_CONTENT, MAX_HEADER, MAX_SERIALIZER

MAX_ITEMS = 10_000
"""Elements of each list in a message."""

MAX_NUMBER = (1 << 53) - 1
"""The largest number that any field has."""

MAX_BLOCK = (1 << 31) - 1
"""The largest id of a block."""

COPIED = 1 << 18
"""Bodies up to this many bytes are copies of their own; larger ones are views of the received message."""

if TYPE_CHECKING:
    Body = bytes | bytearray | memoryview
else:
    Body = bytes  # what comes in; out go views as well

Number = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
BlockId = Annotated[int, Meta(ge=0, le=MAX_BLOCK)]
Size = Annotated[int, Meta(ge=0, le=MAX_CONTENT)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_HEADER)]
Key = Annotated[str, Meta(max_length=MAX_HEADER)]
SerializerName = Annotated[str, Meta(max_length=MAX_SERIALIZER)]
Content = Meta(max_length=MAX_CONTENT)
Most = Meta(max_length=MAX_ITEMS)


class Row(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """A notification.

    Attributes:
        number: in its topic, from 1.
        sent_ms: the publisher's Unix time in milliseconds.
        key: what it is about, mostly empty; at most 2048 characters.
        serializer: of the content.
        body: the content; empty when it lies in a block.
        block: id of the block whose first bytes are the content; 0 when it is the body.
        size: bytes of the content in the block; 0 without one.
    """

    number: Number
    sent_ms: Number
    key: Key
    serializer: SerializerName
    body: Annotated[Body, Content]
    block: BlockId = 0
    size: Size = 0


class Run(Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Notifications of one topic in succession, for the same interests.

    Attributes:
        topic: at most 2048 characters, not empty.
        interests: of the reader, by the numbers that it gave them.
        rows: at most 10 000.
    """

    topic: Name
    interests: Annotated[list[Number], Most]
    rows: Annotated[list[Row], Most]


class Loss(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """What an interest lost on this link, since its beginning.

    Attributes:
        interest: its number.
        topic: of what was lost.
        at: the largest number that was lost.
        total: how many were.
    """

    interest: Number
    topic: Name
    at: Number
    total: Number


class Ended(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """An interest that the publisher gives nothing more.

    Attributes:
        interest: its number.
        reason: for people.
        stays: its topic was withdrawn: it goes on should that be published again.
    """

    interest: Number
    reason: Key
    stays: bool = False


class Notify(Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What goes over a link at once.

    Attributes:
        first: position of the first row, or of the next one to come.
        runs: with positions ``first``, ``first + 1`` and so on.
        losses: sums that have changed.
        ended: interests that have ended.
        lent: id of the block whose descriptor comes with this message; 0 without one.
        dropped: ids of blocks that the publisher let go of.
        hurry: somebody waits until the reader is done with a row of it.
    """

    first: Number
    runs: Annotated[list[Run], Most] = []
    losses: Annotated[list[Loss], Most] = []
    ended: Annotated[list[Ended], Most] = []
    lent: BlockId = 0
    dropped: Annotated[list[BlockId], Most] = []
    hurry: bool = False


class _ViewedRow(Row, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    body: Annotated[memoryview, Content]


class _ViewedRun(Run, array_like=True, frozen=True, forbid_unknown_fields=True):
    rows: Annotated[list[_ViewedRow], Most]  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedNotify(Notify, array_like=True, frozen=True, forbid_unknown_fields=True):
    runs: Annotated[list[_ViewedRun], Most] = []  # pyright: ignore[reportIncompatibleVariableOverride]


_ENCODER = msgspec.msgpack.Encoder()
_COPYING, _VIEWING = msgspec.msgpack.Decoder(Notify), msgspec.msgpack.Decoder(_ViewedNotify)


def encode(notify: object) -> bytes:
    """The bytes of a message; every body is copied once.

    Raises:
        SerializeError: for what is none, or a text or body that has no bytes.
    """
    if type(notify) is not Notify:
        raise SerializeError(f"only a Notify can be encoded as one, not a {type(notify).__name__}")
    try:
        return _ENCODER.encode(notify)
    except Exception as error:  # of whatever stands in the fields
        raise SerializeError(f"the message cannot be encoded: {type(error).__name__}: {error}") from error


def decode(data: bytes | bytearray | memoryview) -> Notify:
    """The message in ``data``; of large ones, bodies over `COPIED` bytes are views of it.

    Raises:
        DecodeError: for anything else than sane types, numbers and lengths.
    """
    try:
        if len(data) <= COPIED:
            notify = _COPYING.decode(data)
        else:
            viewed = _VIEWING.decode(memoryview(data).cast("B").toreadonly())
            runs = [Run(run.topic, run.interests, [_settled(row) for row in run.rows]) for run in viewed.runs]
            notify = Notify(viewed.first, runs, *astuple(viewed)[2:])
    except Exception as error:  # msgspec lets those of Unicode and of recursion through
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise DecodeError(f"a link message of {len(data)} bytes cannot be decoded: {reason}") from None
    for run in notify.runs:
        for row in run.rows:
            if (row.block or row.size) and (not row.block or len(row.body)):
                raise DecodeError(f"row {row.number} of {run.topic[:80]!r} has no content, or two")
    return notify


def _settled(viewed: Row) -> Row:
    fields: list[Any] = list(astuple(viewed))
    if len(viewed.body) <= COPIED:  # a small view would keep the whole message
        fields[_BODY] = bytes(viewed.body)
    return Row(*fields)


_BODY = Row.__struct_fields__.index("body")
