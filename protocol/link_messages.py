"""Link messages: what both ends of a link say, as plain structs and never as a pickle.

A message is a MessagePack array of its tag and its fields, in their order. Fields at the end may be missing
where they have a default. The body of a row stays bytes here, because its serializer is judged first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from .frames import MAX_CONTENT, MAX_HEADER, MAX_MSGID, MAX_SERIALIZER, MAX_SIGNATURE

MAX_ITEMS = 10_000
"""Elements of each list in a message."""

MAX_KEYS = 1 << 20
"""Keys of one interest, and bytes of their text together."""

MAX_NUMBER = (1 << 53) - 1
"""The largest number that any field has."""

MAX_BLOCK = (1 << 31) - 1
"""The largest id of a block."""

MAX_NAME = 200
"""Characters of the name of a mailbox."""

MAX_HOLD = 60.0
"""Seconds that an answer may be held."""

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
    """A reader opens a link, or goes on with it over another transport; `Opened` is the answer.

    Attributes:
        link: its id.
        received: position up to which the reader has everything.
        transport: ``unix``: the connection over which this comes; ``tcp``: long polls.
        name: of a mailbox, empty for the process's own; None for a link that keeps nothing.
        tenure: of the mailbox, as `Opened` told it; 0 before, and to take over one with a name.
    """

    link: LinkId
    received: Number = 0
    transport: Literal["unix", "tcp"] = "tcp"
    name: Annotated[str, Meta(max_length=MAX_NAME)] | None = None
    tenure: Number = 0


class Opened(LinkMessage, tag=2, frozen=True):
    """The link is open.

    Attributes:
        epoch: of the publisher.
        tenure: of the mailbox, another one for each link that opens it; 0 for a link that is none.
    """

    epoch: Number
    tenure: Number = 0


class Command(Struct, array_like=True, forbid_unknown_fields=True):
    """What a reader wants of one interest from now on.

    Attributes:
        interest: the number that the reader gives it, from 1.
        topic: of the messages, ``*`` for all; empty: not wanted any more.
        keys: of the messages; None for all.
        policy: ``drop``, ``latest`` or ``block``; of a mailbox's link ``mailbox``.
        bound: of the policy, in messages.
        timeout: seconds that a ``block`` is waited for.
        who: the agent that wants it, as in its marks; empty when it does not say.
        type: that messages must have; empty for any.
        initial: the answer brings what is retained.
        max_bytes: of a ``mailbox``; None for what the publisher takes at most.
        when_full: of a ``mailbox``: ``drop_oldest`` or ``block``; None for the first.
        keep: seconds for which a ``mailbox`` is kept; None for 300.
        raw: its rows come with message id and signature, and so do all others of the link from then on.
    """

    interest: Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
    topic: Key = ""
    keys: Annotated[list[Key], Meta(min_length=1, max_length=MAX_KEYS)] | None = None
    policy: str = "drop"
    bound: Annotated[int, Meta(ge=1, le=MAX_NUMBER)] = 1
    timeout: float | None = None
    who: Key = ""
    type: Key = ""
    initial: bool = False
    max_bytes: Annotated[int, Meta(ge=1, le=MAX_NUMBER)] | None = None
    when_full: str | None = None
    keep: float | None = None
    raw: bool = False


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
        lasts: of each of its topics the number behind which it begins: the last one of the moment, of what
            was kept for the process before the one before its oldest.
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
        msgid: frame 3 of the notification, where a ``raw`` interest wants it; else empty.
        signature: its frame 4, with which the body may be encrypted.
    """

    number: Number
    sent_ms: Number
    key: Key
    serializer: SerializerName
    body: Annotated[Body, Content]
    block: BlockId = 0
    size: Size = 0
    msgid: Annotated[bytes, Meta(max_length=MAX_MSGID)] = b""
    signature: Annotated[bytes, Meta(max_length=MAX_SIGNATURE)] = b""


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
        hold: seconds within which it wants a `Notify` as the answer, at most 60; 0: it wants none.
        room: position up to which it takes messages that are kept for it.
    """

    link: LinkId
    received: Number
    upto: Number
    others: Annotated[list[Number], Most] = []
    hold: Annotated[float, Meta(ge=0, le=MAX_HOLD)] = 0.0
    room: Number = 0


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
