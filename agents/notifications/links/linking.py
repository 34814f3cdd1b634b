"""Linking: how readers open, keep and close their links; messages as in `protocol.link_messages`.

What an interest gets begins behind its last numbers. The same batch of commands is answered the same. A link
belongs to the agent and the key that opened it. One that is suspended, because its reader was silent, goes on
when it is opened again; one that has ended does not come back. Whoever speaks of either otherwise is told so
by `PeerLost`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from functools import partial

from ....protocol import limits
from ....protocol.errors import PeerLost, Refused, RemoteProtocolError
from ....protocol.keyring import Role
from ....protocol.link_messages import (
    Applied,
    Close,
    Closed,
    Interests,
    LinkMessage,
    Notify,
    Open,
    Opened,
    Report,
)
from ....protocol.message import Identity
from ....protocol.shown import shown
from ....transport.counters import Counters
from ....transport.lifelines import Lifeline
from ....transport.loop import Loop
from ....transport.wire import Protocol
from ...server.call import Call
from ...server.replies import Replies
from ...server.unix_listener import UnixConnection
from ..declared import Declared
from ..retained import RetainedValues
from .confirming import Answering
from .inside import Inside
from .link_subscriber import LinkSubscriber
from .looking import Looking
from .mailbox_subscriber import MailboxSubscriber
from .subscriber import Subscriber
from .subscribers import Subscribers
from .topics import wanted_of
from .transports import (
    MAIL_LIMIT,
    TCP_LIMIT,
    UNIX_LIMIT,
    UNIX_MAIL_LIMIT,
    LocalTransport,
    PollTransport,
    Transport,
    UnixTransport,
)

logger = logging.getLogger("pzc.links")

_REMEMBERED = 1000


class Linking:
    """The words of one publisher's links.

    Args:
        subscribers: the links.
        loop: for what watches the readers' processes.
        counters: where mailboxes that are removed are counted.
        protocol: of the agent.
        agent_id: of the agent.
        name: of the agent.
        replies: sends answers.
        on_change: called after a reader wants other topics, and before it is told that this was done.
        retained: what the publisher keeps for readers to come.
        declared: what it says of its topics.
        partition: of the agent's name.
    """

    def __init__(
        self, subscribers: Subscribers, loop: Loop, counters: Counters, protocol: Protocol, agent_id: str,
        name: str, replies: Replies, on_change: Callable[..., object], retained: RetainedValues,
        declared: Declared, partition: str,
    ) -> None:  # fmt: skip
        self._subscribers = subscribers
        self._loop = loop
        self._protocol = protocol
        self._agent_id = agent_id
        self._name = name
        self._replies = replies
        self._on_change = on_change
        self.retained = retained
        self._declared = declared
        self._partition = partition
        self._looking = Looking(subscribers, loop, counters)
        self._over: dict[str, str] = {}
        self._lifelines: dict[str, Lifeline] = {}
        subscribers.on_end = self._on_end
        subscribers.on_pause = on_change

    def answer(self, request: Call, message: object) -> None:
        """What a reader says.

        Raises:
            RemoteProtocolError: for what no reader says.
            PeerLost: of a link that is over, or suspended.
            Refused: when it is somebody else's, or takes what is not there.
        """
        owner = request.message.identity
        if isinstance(message, Open):
            self._on_open(request, owner, message)
        elif isinstance(message, Interests):
            lets_wait = request.role is None or request.role >= Role.OPERATOR
            self._tell(request, self._want(owner, message, request.caller.carrier.kind, lets_wait))
            if (subscriber := self._subscribers.links.get(message.link)) is not None:
                subscriber.flush()  # what was kept for this process before it came
        elif isinstance(message, Report):
            self._on_report(request, owner, message)
        elif isinstance(message, Close):
            subscriber = self._of(message.link, owner)
            self._tell(request, Closed())
            self._subscribers.end(subscriber, "its reader closed it")
        else:
            raise RemoteProtocolError(f"no reader of a link says {shown(message, 100)}")

    def _tell(self, request: Call, message: LinkMessage) -> None:
        request.answer(message, "link")

    def hear(self, message: LinkMessage, reader: str, link: Inside) -> LinkMessage:
        """What a reader in this process says; returns the answer, errors as `answer`.

        Args:
            message: of a link.
            reader: agent id.
            link: gets the notifications.
        """
        keyring = self._protocol.codec.keyring
        owner = Identity("" if keyring is None else keyring.calling.key_id, reader)
        if isinstance(message, Open):
            return self._open_here(message, owner, link)
        if isinstance(message, Interests):
            return self._want(owner, message, "inproc", True)
        subscriber = self._subscribers.links.get(getattr(message, "link", ""))
        if subscriber is not None and isinstance(message, Report):
            self._subscribers.acknowledged(subscriber, message.received, message.upto, message.others)
        elif subscriber is not None:
            self._subscribers.end(subscriber, "its reader closed it")
        return Closed()

    # --- opening -------------------------------------------------------------------------------------

    def _open_here(self, message: Open, owner: Identity, link: Inside) -> Opened:
        if message.name is not None:
            raise Refused("a mailbox keeps what was encoded: open it over unix or tcp")
        subscriber = self._open(message, owner)
        epoch, before = self._protocol.epoch, subscriber.transport
        if not isinstance(before, LocalTransport) or before.link is not link:
            transport = LocalTransport(
                link, self._agent_id, self._name, epoch, owner.key_id, self._partition, self._declared.names
            )
            self._subscribers.attach(subscriber, transport, message.received, bool)
        return Opened(epoch)

    def _on_open(self, request: Call, owner: Identity, message: Open) -> None:
        link, received = message.link, message.received
        connection = self._connection(request, link) if message.transport == "unix" else None
        is_new = link not in self._subscribers.links
        subscriber = self._open(message, owner)
        tenure = subscriber.tenure if isinstance(subscriber, MailboxSubscriber) else 0
        tell = partial(self._tell, request, Opened(self._protocol.epoch, tenure))
        if connection is None:  # again, too: the answer that may be lost told losses, perhaps
            limit = MAIL_LIMIT if isinstance(subscriber, MailboxSubscriber) else TCP_LIMIT
            self._subscribers.attach(subscriber, PollTransport(limit), received, tell)
        elif _is_over(subscriber.transport, connection):
            tell()
        else:
            try:
                unix = self._unix(subscriber, connection, request)
            except OSError as exc:
                raise self._short(subscriber, exc, is_new) from exc
            self._subscribers.attach(subscriber, unix, received, tell)

    def _connection(self, request: Call, link: str) -> UnixConnection:
        connection = request.caller.carrier
        if not isinstance(connection, UnixConnection):
            raise Refused("a link over a Unix socket is opened on the connection that it will use")
        subscriber = self._subscribers.links.get(link)
        if connection.is_link and (subscriber is None or not _is_over(subscriber.transport, connection)):
            raise Refused("the connection is that of another link")
        return connection

    def _open(self, message: Open, owner: Identity) -> Subscriber:
        subscribers, link, name, then = self._subscribers, message.link, message.name, bool
        with subscribers.lock:
            subscriber = self._find(link, owner)
            if subscriber is None and message.received:
                raise _over(link, "it was silent for too long")
            if subscriber is not None:
                subscriber.queue.check(message.received)
                subscriber.heard(time.monotonic())
            elif name is None:
                subscriber = self._new(link, owner)
            else:
                subscribers.check_open()
                subscriber, before = subscribers.mailboxes.open(link, owner, name, message.tenure)
                subscribers.add(subscriber)
                if before is not None:
                    then = subscribers.forget(before, "another process reads it now")
        then()
        self._looking.watch()
        return subscriber

    def _new(self, link: str, owner: Identity) -> Subscriber:
        subscribers = self._subscribers
        of_key = [each for each in subscribers.live() if each.owner.key_id == owner.key_id]
        if len(of_key) >= limits.current.links and not self._looking.make_room(of_key):
            raise Refused(f"this key has {len(of_key)} links already")
        subscriber = LinkSubscriber(link, owner, subscribers.lock, subscribers.ring, time.monotonic())
        subscribers.add(subscriber)
        return subscriber

    def _find(self, link: str, owner: Identity) -> Subscriber | None:
        """The link of that id.

        Raises:
            Refused: when it is somebody else's.
            PeerLost: when it is over.
        """
        if link in self._over:
            raise _over(link, self._over[link])
        subscriber = self._subscribers.links.get(link)
        if subscriber is not None and subscriber.owner != owner:
            raise Refused(f"link {link[:8]} belongs to another agent, or to another key")
        return subscriber

    # --- interests -----------------------------------------------------------------------------------

    def _want(self, owner: Identity, message: Interests, transport: str, lets_wait: bool) -> Applied:
        """What a reader wants from now on; without a link it asks only what an interest would begin with.

        ``lets_wait``: as that of `Answering`.
        """
        subscriber = self._open_one(message.link, owner) if message.link else None
        said = [(command, wanted_of(command)) for command in message.commands]
        with self._subscribers.lock:
            before = Applied(message.number - 1) if subscriber is None else subscriber.applied
            if message.number < before.number:
                raise RemoteProtocolError(
                    f"batch {message.number} of interests came behind batch {before.number}"
                )
            if isinstance(subscriber, MailboxSubscriber):
                subscriber.heard_at = subscriber.said_at = time.monotonic()
            answering = Answering(
                self._subscribers, self.retained, self._declared, subscriber, transport, lets_wait
            )
            if message.number == before.number:
                return answering.repeat(before, said)
            applied = answering.obey(message.number, said)
            if subscriber is not None:  # what is retained would outlive its place there
                subscriber.applied = Applied(applied.number, applied.confirmed, about=applied.about)
                self._subscribers.routes.renew()
        self._on_change(before_confirming=True)
        return applied

    # --- transports ----------------------------------------------------------------------------------

    def _unix(self, subscriber: Subscriber, connection: UnixConnection, request: Call) -> UnixTransport:
        subscribers = self._subscribers
        limit = UNIX_MAIL_LIMIT
        if isinstance(subscriber, LinkSubscriber):  # a mailbox is kept for the next process
            end = partial(subscribers.end, subscriber, "its process has ended")
            before = self._lifelines.get(subscriber.link)
            self._lifelines[subscriber.link] = Lifeline(self._loop, connection.pid, end)
            if before is not None:
                before.close()
            limit = UNIX_LIMIT
        refill = partial(subscribers.refill, subscriber)
        make = partial(UnixTransport, self._loop, request, refill, limit=limit)
        return connection.become_link(make, partial(self._lost, subscriber, connection))

    def _short(self, subscriber: Subscriber, error: OSError, is_new: bool) -> Refused:
        """The refusal of a Unix transport, for which something is missing here; what it keeps stays."""
        reason = f"this publisher cannot open what a link over a Unix socket needs: {error}"
        if is_new and not len(subscriber.queue.index):
            self._subscribers.end(subscriber, reason)
        return Refused(f"{reason}; use tcp, or raise its limit of descriptors (ulimit -n)")

    def _lost(self, subscriber: Subscriber, connection: UnixConnection) -> None:
        # The lifeline stays: the end of a process shows at its sockets before it shows there.
        if subscriber.ended:
            self._release(subscriber)
        transport = subscriber.transport
        if transport is not None and _is_over(transport, connection):
            self._subscribers.lose_transport(subscriber, transport)

    # --- what readers tell ---------------------------------------------------------------------------

    def _on_report(self, request: Call, owner: Identity, message: Report) -> None:
        request.oneway = not message.hold
        subscriber = self._open_one(message.link, owner)
        subscribers, hold = self._subscribers, message.hold
        if isinstance(subscriber, MailboxSubscriber):
            hold = min(hold, subscriber.keep)
            with subscribers.lock:
                subscriber.queue.room = message.room
        subscribers.acknowledged(subscriber, message.received, message.upto, message.others)
        transport = subscriber.transport
        if isinstance(transport, PollTransport) and message.hold:
            self._poll(subscriber, transport, request, message.received, hold)
        elif message.hold:  # it goes without being asked for
            self._tell(request, Notify(message.received + 1))

    def _poll(
        self, subscriber: Subscriber, transport: PollTransport, request: Call, received: int, hold: float
    ) -> None:
        subscribers = self._subscribers
        with subscribers.lock:
            if received < subscriber.queue.sent:  # the answer to the poll before was lost
                subscriber.attach(transport, received)
            transport.wait(request, received + 1)
            transport.until = time.monotonic() + hold
            subscriber.pull()
        subscriber.flush()
        if transport.ready:
            self._watch(subscriber, transport)

    def _watch(self, subscriber: Subscriber, transport: PollTransport) -> None:
        """Answer the poll that waits when its time is over; I/O thread."""
        if not transport.watched:
            transport.watched = True
            self._loop.call_later(
                max(0.0, transport.until - time.monotonic()), partial(self._ring, subscriber, transport)
            )

    def _ring(self, subscriber: Subscriber, transport: PollTransport) -> None:
        transport.watched = False
        if subscriber.transport is transport and transport.ready:
            if transport.until <= time.monotonic():
                subscriber.beat(math.inf)
            else:
                self._watch(subscriber, transport)

    def _of(self, link: str, owner: Identity) -> Subscriber:
        subscriber = self._find(link, owner)
        if subscriber is None:
            raise _over(link, "it was silent for too long, or never opened")
        return subscriber

    def _open_one(self, link: str, owner: Identity) -> Subscriber:
        subscriber = self._of(link, owner)
        if subscriber.queue.suspended:
            raise PeerLost(f"link {link[:8]} is suspended at its publisher: open it again")
        return subscriber

    def _on_end(self, subscriber: Subscriber, transport: Transport | None) -> None:
        with self._subscribers.lock:
            self._over[subscriber.link] = subscriber.ended
            while len(self._over) > _REMEMBERED:
                del self._over[next(iter(self._over))]
        self._release(subscriber)
        if isinstance(transport, LocalTransport):
            transport.link.ended(subscriber.ended)
        self._on_change()

    def _release(self, subscriber: Subscriber) -> None:
        lifeline = self._lifelines.pop(subscriber.link, None)
        if lifeline is not None:
            lifeline.close()


def _is_over(transport: Transport | None, connection: UnixConnection) -> bool:
    return isinstance(transport, UnixTransport) and transport.connection is connection


def _over(link: str, reason: str) -> PeerLost:
    return PeerLost(f"link {link[:8]} has ended at its publisher: {reason}")
