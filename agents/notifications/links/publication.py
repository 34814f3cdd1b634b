"""Publication: one on its way to the links of its topic."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ....delivery.claims import Claim
from ....protocol.frames import Buffer
from ....protocol.link_messages import Body
from ....protocol.records import Record
from .link_subscriber import LinkSubscriber
from .mailbox_subscriber import MailboxSubscriber
from .published import Published
from .subscriber import Subscriber


class Route(Struct, frozen=True, eq=False):
    """Where a topic goes.

    Attributes:
        subscribers: every link that wants it, or some of its keys; those that are suspended count it.
        waits: the publisher may have to wait for one of them.
        remote: somebody needs a body.
        blocks: somebody reads blocks.
        mailboxes: that get any message of it.
    """

    subscribers: tuple[LinkSubscriber, ...] = ()
    waits: bool = False
    remote: bool = False
    blocks: bool = False
    mailboxes: tuple[MailboxSubscriber, ...] = ()


NOWHERE = Route()


def route_of(
    topic: str,
    subscribers: tuple[LinkSubscriber, ...],
    mailboxes: tuple[MailboxSubscriber, ...],
    zero_copy: bool,
) -> Route:
    """The route of a topic to these, which all want it; without ``zero_copy`` nobody gets blocks."""
    remote = [
        subscriber for subscriber in subscribers if not (subscriber.is_local or subscriber.queue.suspended)
    ]
    return Route(
        subscribers,
        any(subscriber.waits(topic) for subscriber in (*subscribers, *mailboxes)),
        bool(remote),
        zero_copy and any(subscriber.takes_blocks for subscriber in remote),
        mailboxes,
    )


class Publication(Struct, eq=False):
    """One publication, and what it takes along.

    Attributes:
        published: what.
        since: monotonic seconds from which its wait counts.
        route: where it goes, when it was looked at last.
        blocked: those whose window is full, each with its link.
        ack_wait: seconds to wait for links to be done with it; None for none.
        mail: serializer and content for mailboxes; None when none wants it.
        outgoing: serializer and content for broadcast; None when none is wanted.
        record: what mailboxes keep of it; None when none does.
        spoken: frames for broadcast under other names.
        kept: serializer and content to be kept; None when nothing of its topic is.
    """

    published: Published
    since: float
    route: Route = NOWHERE
    blocked: tuple[tuple[Subscriber, Claim], ...] = ()
    ack_wait: float | None = None
    mail: tuple[str, Body] | None = None
    outgoing: tuple[str, Body] | None = None
    record: Record | None = None
    spoken: tuple[Sequence[Buffer], ...] = ()
    kept: tuple[str, bytes] | None = None

    @property
    def size(self) -> int:
        """Bytes of the content for mailboxes; 0 without any."""
        return 0 if self.mail is None else len(self.mail[1])
