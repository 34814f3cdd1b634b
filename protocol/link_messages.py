"""Link messages: what both ends of a link say, as plain structs and never as a pickle.

MessagePack arrays in the order of the fields, nothing more and nothing less in them; a message begins with
its kind::

    1  Open       link, received, way
    2  Opened     epoch
    3  Interests  link, number, commands
       Command    interest, topic, keys, policy, bound, timeout, on_timeout, who, type, initial
    4  Applied    number, confirmed, retained, about
       Confirmed  interest, lasts, window, code, text
    5  Report     link, received, upto, others, polls
    6  Notify     first, runs, losses, ended, lent, dropped, hurry, about
       Run        topic, interests, rows, like
       Row        number, sent_ms, key, serializer, body, block, size
       Loss       interest, topic, at, total
       Ended      interest, reason, stays, code
    7  Close      link
    8  Closed
    9  Lasts      lasts, each a Last of topic, number, withdrawn

Fields at the end may be missing where they have a default. The body of a row stays bytes here: whoever
receives it looks at the row's serializer first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import astuple

from .errors import DecodeError, SerializeError
from .frames import MAX_CONTENT, MAX_HEADER, MAX_SERIALIZER

MAX_ITEMS = 10_000
"""Elements of each list in a message."""

MAX_KEYS = 1_000_000
"""Keys of one interest; interests and keys of one link."""

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
LinkId = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
Types = dict[Key, Key]


class LinkMessage(Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Any of them."""


class Open(LinkMessage, tag=1, frozen=True):
    """A reader opens a link, or goes on with it over another way; `Opened` is the answer.

    Attributes:
        link: its id.
        received: position up to which the reader has everything.
        way: ``unix``: the connection over which this comes; ``tcp``: long polls.
    """

    link: LinkId
    received: Number = 0
    way: Literal["unix", "tcp"] = "tcp"


class Opened(LinkMessage, tag=2, frozen=True):
    """The link is open; ``epoch``: of the publisher."""

    epoch: Number


class Command(Struct, array_like=True, forbid_unknown_fields=True):
    """What a reader wants of one interest from now on.

    Attributes:
        interest: the number that the reader gives it, from 1.
        topic: of the messages, ``*`` for all; empty: not wanted any more.
        keys: of the messages; None for all.
        policy: ``drop``, ``latest`` or ``block``.
        bound: of the policy.
        timeout: seconds that a ``block`` is waited for.
        on_timeout: what happens then: ``raise``, ``drop`` or ``close``.
        who: the agent that wants it, as in its marks; empty when it does not say.
        type: that messages must have; empty for any.
        initial: the answer brings what is retained.
    """

    interest: Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
    topic: Key = ""
    keys: Annotated[list[Key], Meta(min_length=1, max_length=MAX_KEYS)] | None = None
    policy: str = "drop"
    bound: Annotated[int, Meta(ge=1, le=MAX_NUMBER)] = 1
    timeout: float | None = None
    on_timeout: str | None = None
    who: Key = ""
    type: Key = ""
    initial: bool = False


class Interests(LinkMessage, tag=3, frozen=True):
    """What a reader wants; `Applied` is the answer.

    Attributes:
        link: its id; empty: nothing is wanted, and told what an interest would begin with.
        number: of the batch, rising by 1.
        commands: at most 10 000.
    """

    link: Annotated[str, Meta(pattern="^([0-9a-f]{32})?$")]
    number: Number
    commands: Annotated[list[Command], Most]


class Confirmed(Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What a publisher says of one interest.

    Attributes:
        interest: its number.
        lasts: last number of each of its topics when it began.
        window: most messages of a ``block`` that are not done with.
        code: name of the error for one that is refused; empty when it is not.
        text: of that error.
    """

    interest: Number
    lasts: dict[Name, Number] = {}
    window: Number = 1
    code: Key = ""
    text: str = ""


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
        rows: at most 10 000; none when they are like those of another run.
        like: which run of the message has the same rows, in no blocks, from 1; 0: it has its own.
    """

    topic: Name
    interests: Annotated[list[Number], Most]
    rows: Annotated[list[Row], Most]
    like: Number = 0


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
        code: name of the error when it is refused from now on; else empty.
    """

    interest: Number
    reason: Key
    stays: bool = False
    code: Key = ""


class Applied(LinkMessage, tag=4, frozen=True):
    """A batch of commands was applied.

    Attributes:
        number: of the batch.
        confirmed: what its interests begin with.
        retained: what is retained for those that asked for it, of the moment of ``confirmed``.
        about: what the messages of their topics are, as far as that was said.
    """

    number: Number
    confirmed: Annotated[list[Confirmed], Most] = []
    retained: Annotated[list[Run], Most] = []
    about: Types = {}


class Report(LinkMessage, tag=5, frozen=True):
    """What a reader has, and is done with.

    Attributes:
        link: its id.
        received: position up to which it has everything.
        upto: it is done with all up to this one.
        others: and with these.
        polls: a `Notify` is the answer, within a second; else there is none.
    """

    link: LinkId
    received: Number
    upto: Number
    others: Annotated[list[Number], Most] = []
    polls: bool = False


class Notify(LinkMessage, tag=6, frozen=True):
    """What goes over a link at once.

    Attributes:
        first: position of the first row, or of the next one to come.
        runs: with positions ``first``, ``first + 1`` and so on.
        losses: sums that have changed.
        ended: interests that have ended.
        lent: id of the block whose descriptor comes with this message; 0 without one.
        dropped: ids of blocks that the publisher let go of.
        hurry: somebody waits until the reader is done with a row of it.
        about: what the messages of these topics are from now on.
    """

    first: Number
    runs: Annotated[list[Run], Most] = []
    losses: Annotated[list[Loss], Most] = []
    ended: Annotated[list[Ended], Most] = []
    lent: BlockId = 0
    dropped: Annotated[list[BlockId], Most] = []
    hurry: bool = False
    about: Types = {}


class Close(LinkMessage, tag=7, frozen=True):
    """The reader ends a link; `Closed` is the answer."""

    link: LinkId


class Closed(LinkMessage, tag=8, frozen=True):
    """The link is over."""


class Last(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    """The last number of a topic; ``withdrawn``: its publisher does not offer it any more."""

    topic: Name
    number: Number
    withdrawn: bool = False


class Lasts(LinkMessage, tag=9, frozen=True):
    """How far topics are that are broadcast."""

    lasts: Annotated[list[Last], Most] = []


class _ViewedRow(Row, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    body: Annotated[memoryview, Content]


class _ViewedRun(Run, array_like=True, frozen=True, forbid_unknown_fields=True):
    rows: Annotated[list[_ViewedRow], Most]  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedApplied(Applied, tag=4, frozen=True):
    retained: Annotated[list[_ViewedRun], Most] = []  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedNotify(Notify, tag=6, frozen=True):
    runs: Annotated[list[_ViewedRun], Most] = []  # pyright: ignore[reportIncompatibleVariableOverride]


_ENCODER = msgspec.msgpack.Encoder()
_COPYING: msgspec.msgpack.Decoder[LinkMessage] = msgspec.msgpack.Decoder(
    Open | Opened | Interests | Applied | Report | Notify | Close | Closed | Lasts
)
_VIEWING: msgspec.msgpack.Decoder[LinkMessage] = msgspec.msgpack.Decoder(
    Interests | _ViewedApplied | _ViewedNotify | Lasts
)


def encode(message: object) -> bytes:
    """The bytes of a message; every body is copied once.

    Raises:
        SerializeError: for what is none, or a text or body that has no bytes.
    """
    if not isinstance(message, LinkMessage):
        raise SerializeError(f"only a LinkMessage can be encoded as one, not a {type(message).__name__}")
    try:
        return _ENCODER.encode(message)
    except Exception as error:  # of whatever stands in the fields
        raise SerializeError(f"the message cannot be encoded: {type(error).__name__}: {error}") from error


def decode(data: bytes | bytearray | memoryview) -> LinkMessage:
    """The message in ``data``; of large ones, bodies over `COPIED` bytes are views of it.

    Raises:
        DecodeError: for anything else than sane types, numbers and lengths.
    """
    try:
        if len(data) <= COPIED:
            message = _COPYING.decode(data)
        else:
            message = _settled(_VIEWING.decode(memoryview(data).cast("B").toreadonly()))
    except Exception as error:  # msgspec lets those of Unicode and of recursion through
        reason = f"{len(data)} bytes cannot be decoded: {type(error).__name__}: {str(error)[:200]}"
        raise DecodeError(f"a link message of {reason}") from None
    alike = False
    runs = message.runs if isinstance(message, Notify) else ()
    for run in message.retained if isinstance(message, Applied) else runs:
        alike = alike or bool(run.like)
        for row in run.rows:
            if (row.block or row.size) and (not row.block or len(row.body)):
                raise DecodeError(f"row {row.number} of {run.topic[:80]!r} has no content, or two")
    return _completed(message) if alike and isinstance(message, Notify) else message


def _completed(notify: Notify) -> Notify:
    """With the rows of runs that are like others."""
    runs = notify.runs
    for index, run in enumerate(runs):
        if not run.like:
            continue
        if run.rows or run.like > index or runs[run.like - 1].like or runs[run.like - 1].topic != run.topic:
            raise DecodeError(f"run {index + 1} of {run.topic[:80]!r} is like none before")
        rows = runs[run.like - 1].rows
        if any(row.block for row in rows):
            raise DecodeError(f"run {index + 1} of {run.topic[:80]!r} is like one in blocks")
        runs[index] = Run(run.topic, run.interests, rows, run.like)
    return notify


def _settled(message: LinkMessage) -> LinkMessage:
    if isinstance(message, _ViewedApplied):
        return Applied(message.number, message.confirmed, _runs(message.retained), message.about)
    if isinstance(message, _ViewedNotify):
        return Notify(message.first, _runs(message.runs), *astuple(message)[2:])
    return message


def _runs(viewed: Sequence[Run]) -> list[Run]:
    return [Run(run.topic, run.interests, [_row(row) for row in run.rows], run.like) for run in viewed]


def _row(viewed: Row) -> Row:
    fields: list[Any] = list(astuple(viewed))
    if len(viewed.body) <= COPIED:  # a small view would keep the whole message
        fields[Row.__struct_fields__.index("body")] = bytes(viewed.body)
    return Row(*fields)
