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
from ....protocol.session import ARRAYS
from ....protocol.shown import shown
from ....transport.counters import Counters
from ....transport.lifelines import Lifeline
from ....transport.loop import Loop
from ....transport.wire import Protocol
from ...words import Connection, Replies, Request
from ..declared import Declared
from ..keeping import Keeping
from .confirming import Answering
from .live_outlet import LiveOutlet
from .local import LocalReader
from .looking import Looking
from .mailbox_outlet import MailboxOutlet
from .outlet import Outlet, Owner
from .outlets import Outlets
from .topics import wanted_of
from .ways import MAIL_LIMIT, UNIX_LIMIT, UNIX_MAIL_LIMIT, LocalWay, PollWay, UnixWay, Way

logger = logging.getLogger("pzc.links")

_REMEMBERED = 1000


class Linking:
    """The words of one publisher's links.

    Args:
        outlets: the links.
        loop: for what watches the readers' processes.
        counters: where mailboxes that are removed are counted.
        protocol: of the agent.
        agent_id: of the agent.
        name: of the agent.
        replies: sends answers.
        on_change: called after a reader wants other topics, and before it is told that this was done.
        keeping: what the publisher keeps for readers to come.
        declared: what it says of its topics.
        partition: of the agent's name.
    """

    def __init__(
        self,
        outlets: Outlets,
        loop: Loop,
        counters: Counters,
        protocol: Protocol,
        agent_id: str,
        name: str,
        replies: Replies,
        on_change: Callable[..., object],
        keeping: Keeping,
        declared: Declared,
        partition: str,
    ) -> None:
        self._outlets = outlets
        self._loop = loop
        self._protocol = protocol
        self._agent_id = agent_id
        self._name = name
        self._replies = replies
        self._on_change = on_change
        self.keeping = keeping
        self._declared = declared
        self._partition = partition
        self._looking = Looking(outlets, loop, counters)
        self._over: dict[str, str] = {}
        self._lifelines: dict[str, Lifeline] = {}
        outlets.on_end = self._on_end
        outlets.on_pause = on_change

    def answer(self, request: Request, message: object) -> None:
        """What a reader says.

        Raises:
            RemoteProtocolError: for what no reader says.
            PeerLost: of a link that is over, or suspended.
            Refused: when it is somebody else's, or takes what is not there.
        """
        owner = Owner(request.message.sender, request.message.key_id)
        if isinstance(message, Open):
            self._on_open(request, owner, message)
        elif isinstance(message, Interests):
            way = "tcp" if request.connection is None else "unix"
            self._tell(request, self._want(owner, message, way, request.role is not Role.OBSERVER))
        elif isinstance(message, Report):
            self._on_report(request, owner, message)
        elif isinstance(message, Close):
            outlet = self._of(message.link, owner)
            self._tell(request, Closed())
            self._outlets.end(outlet, "its reader closed it")
        else:
            raise RemoteProtocolError(f"no reader of a link says {shown(message, 100)}")

    def _tell(self, request: Request, message: LinkMessage) -> None:
        self._replies.send(request, request.seal(message, "link"))

    def hear(self, message: LinkMessage, reader: str, link: LocalReader) -> LinkMessage:
        """What a reader in this process says; returns the answer, errors as `answer`.

        Args:
            message: of a link.
            reader: agent id.
            link: gets the notifications.
        """
        keyring = self._protocol.codec.keyring
        owner = Owner(reader, "" if keyring is None else keyring.calling.key_id)
        if isinstance(message, Open):
            return self._open_here(message, owner, link)
        if isinstance(message, Interests):
            return self._want(owner, message, "inproc", True)
        outlet = self._outlets.links.get(getattr(message, "link", ""))
        if outlet is not None and isinstance(message, Report):
            self._outlets.acknowledged(outlet, message.received, message.upto, message.others)
        elif outlet is not None:
            self._outlets.end(outlet, "its reader closed it")
        return Closed()

    # --- opening -------------------------------------------------------------------------------------

    def _open_here(self, message: Open, owner: Owner, link: LocalReader) -> Opened:
        if message.name is not None:
            raise Refused("a mailbox keeps what was encoded: open it over unix or tcp")
        outlet = self._open(message, owner, True)
        epoch = self._protocol.epoch
        if outlet.way is None:
            way = LocalWay(
                link, self._agent_id, self._name, epoch, owner.key_id, self._partition, self._declared.names
            )
            self._outlets.attach(outlet, way, 0, _nothing)
        return Opened(epoch)

    def _on_open(self, request: Request, owner: Owner, message: Open) -> None:
        link, received = message.link, message.received
        connection = request.connection if message.way == "unix" else None
        if message.way == "unix":
            self._check_connection(connection, link)
        arrays = bool(request.message.sequence & ARRAYS)
        is_new = link not in self._outlets.links
        outlet = self._open(message, owner, arrays)
        tenure = outlet.tenure if isinstance(outlet, MailboxOutlet) else 0
        tell = partial(self._tell, request, Opened(self._protocol.epoch, tenure))
        way = outlet.way
        if connection is not None:
            if not _is_over(way, connection):
                try:
                    unix = self._unix_way(outlet, connection, request)
                except OSError as exc:
                    raise self._short(outlet, exc, is_new) from exc
                self._outlets.attach(outlet, unix, received, tell)
                return
        elif not isinstance(way, PollWay) or isinstance(outlet, MailboxOutlet):
            poll = PollWay(MAIL_LIMIT) if isinstance(outlet, MailboxOutlet) else PollWay()
            self._outlets.attach(outlet, poll, received, tell)
            return
        tell()

    def _check_connection(self, connection: Connection | None, link: str) -> None:
        if connection is None:
            raise Refused("a link over a Unix socket is opened on the connection that it will use")
        outlet = self._outlets.links.get(link)
        if connection.is_link and (outlet is None or not _is_over(outlet.way, connection)):
            raise Refused("the connection is that of another link")

    def _open(self, message: Open, owner: Owner, arrays: bool) -> Outlet:
        outlets, link, name, then = self._outlets, message.link, message.name, _nothing
        with outlets.lock:
            outlet = self._find(link, owner)
            if outlet is None and message.received:
                raise _over(link, "it was silent for too long")
            if outlet is not None:
                outlet.queue.check(message.received)
                outlet.heard(time.monotonic())
            elif name is None:
                outlet = self._new(link, owner, arrays)
            else:
                outlet, then = self._new_mailbox(message, owner, arrays, name)
        then()
        self._looking.watch()
        return outlet

    def _new(self, link: str, owner: Owner, arrays: bool) -> Outlet:
        outlets = self._outlets
        links = outlets.live()
        of_key = [each for each in links if each.owner.key_id == owner.key_id]
        by_key = len(of_key) >= limits.current.links_per_key
        crowd = of_key if by_key else links
        if (by_key or len(links) >= limits.current.links) and not self._looking.make_room(crowd):
            raise Refused(f"this {'key' if by_key else 'agent'} has {len(crowd)} links already")
        outlet = LiveOutlet(link, owner, arrays, outlets.lock, outlets.ring, time.monotonic())
        outlets.add(outlet)
        return outlet

    def _new_mailbox(
        self, message: Open, owner: Owner, arrays: bool, name: str
    ) -> tuple[Outlet, Callable[[], object]]:
        """It, and what is to be called without the lock."""
        outlets = self._outlets
        outlets.check_open()
        outlet, before = outlets.mailboxes.open(message.link, owner, arrays, name, message.tenure)
        outlets.add(outlet)
        return outlet, _nothing if before is None else outlets.forget(before, "another process reads it now")

    def _find(self, link: str, owner: Owner) -> Outlet | None:
        """The link of that id.

        Raises:
            Refused: when it is somebody else's.
            PeerLost: when it is over.
        """
        if link in self._over:
            raise _over(link, self._over[link])
        outlet = self._outlets.links.get(link)
        if outlet is not None and outlet.owner != owner:
            raise Refused(f"link {link[:8]} belongs to another agent, or to another key")
        return outlet

    # --- interests -----------------------------------------------------------------------------------

    def _want(self, owner: Owner, message: Interests, way: str, lets_wait: bool) -> Applied:
        """What a reader wants from now on; without a link it asks only what an interest would begin with.

        ``lets_wait``: as that of `Answering`.
        """
        outlet = self._open_one(message.link, owner) if message.link else None
        said = [(command, wanted_of(command)) for command in message.commands]
        with self._outlets.lock:
            before = Applied(message.number - 1) if outlet is None else outlet.applied
            if message.number < before.number:
                raise RemoteProtocolError(
                    f"batch {message.number} of interests came behind batch {before.number}"
                )
            if isinstance(outlet, MailboxOutlet):
                outlet.heard_at = outlet.said_at = time.monotonic()
            answering = Answering(self._outlets, self.keeping, self._declared, outlet, way, lets_wait)
            if message.number == before.number:
                return answering.repeat(before, said)
            applied = answering.obey(message.number, said)
            if outlet is not None:  # what is retained would outlive its place there
                outlet.applied = Applied(applied.number, applied.confirmed, about=applied.about)
                self._outlets.routes.renew()
        self._on_change(before_confirming=True)
        return applied

    # --- ways ----------------------------------------------------------------------------------------

    def _unix_way(self, outlet: Outlet, connection: Connection, request: Request) -> UnixWay:
        outlets = self._outlets
        limit = UNIX_MAIL_LIMIT
        if isinstance(outlet, LiveOutlet):  # a mailbox is kept for the next process
            end = partial(outlets.end, outlet, "its process has ended")
            before = self._lifelines.get(outlet.link)
            self._lifelines[outlet.link] = Lifeline(self._loop, connection.pid, end)
            if before is not None:
                before.close()
            limit = UNIX_LIMIT
        make = partial(UnixWay, self._loop, request, partial(outlets.refill, outlet), limit=limit)
        return connection.become_link(make, partial(self._lost, outlet, connection))

    def _short(self, outlet: Outlet, error: OSError, is_new: bool) -> Refused:
        """The refusal of a Unix way, for which something is missing here; what it keeps stays, for others."""
        reason = f"this publisher cannot open what a link over a Unix socket needs: {error}"
        if is_new and not len(outlet.queue.index):
            self._outlets.end(outlet, reason)
        return Refused(f"{reason}; use tcp, or raise its limit of descriptors (ulimit -n)")

    def _lost(self, outlet: Outlet, connection: Connection) -> None:
        # The lifeline stays: the end of a process shows at its sockets before it shows there.
        if outlet.ended:
            self._release(outlet)
        way = outlet.way
        if way is not None and _is_over(way, connection):
            self._outlets.lose_way(outlet, way)

    # --- what readers tell ---------------------------------------------------------------------------

    def _on_report(self, request: Request, owner: Owner, message: Report) -> None:
        request.oneway = not message.hold
        outlet = self._open_one(message.link, owner)
        outlets, hold = self._outlets, message.hold
        if isinstance(outlet, MailboxOutlet):
            hold = min(hold, outlet.keep)
            with outlets.lock:
                outlet.queue.room = message.room
        outlets.acknowledged(outlet, message.received, message.upto, message.others)
        way = outlet.way
        if isinstance(way, PollWay) and message.hold:
            self._poll(outlet, way, request, message.received, hold)
        elif message.hold:  # it goes without being asked for
            self._tell(request, Notify(message.received + 1))

    def _poll(self, outlet: Outlet, way: PollWay, request: Request, received: int, hold: float) -> None:
        outlets = self._outlets
        with outlets.lock:
            if received < outlet.queue.sent:  # the answer to the poll before was lost
                outlet.attach(way, received)
            way.wait(request, received + 1)
            way.until = time.monotonic() + hold
            outlet.pull()
        outlet.flush()
        if way.ready:
            self._watch(outlet, way)

    def _watch(self, outlet: Outlet, way: PollWay) -> None:
        """Answer the poll that waits when its time is over; I/O thread."""
        if not way.watched:
            way.watched = True
            self._loop.call_later(max(0.0, way.until - time.monotonic()), partial(self._ring, outlet, way))

    def _ring(self, outlet: Outlet, way: PollWay) -> None:
        way.watched = False
        if outlet.way is way and way.ready:
            if way.until <= time.monotonic():
                outlet.beat(math.inf)
            else:
                self._watch(outlet, way)

    def _of(self, link: str, owner: Owner) -> Outlet:
        outlet = self._find(link, owner)
        if outlet is None:
            raise _over(link, "it was silent for too long, or never opened")
        return outlet

    def _open_one(self, link: str, owner: Owner) -> Outlet:
        outlet = self._of(link, owner)
        if outlet.queue.suspended:
            raise PeerLost(f"link {link[:8]} is suspended at its publisher: open it again")
        return outlet

    def _on_end(self, outlet: Outlet, way: Way | None) -> None:
        with self._outlets.lock:
            self._over[outlet.link] = outlet.ended
            while len(self._over) > _REMEMBERED:
                del self._over[next(iter(self._over))]
        self._release(outlet)
        if isinstance(way, LocalWay):
            way.link.ended(outlet.ended)
        self._on_change()

    def _release(self, outlet: Outlet) -> None:
        lifeline = self._lifelines.pop(outlet.link, None)
        if lifeline is not None:
            lifeline.close()


def _is_over(way: Way | None, connection: Connection) -> bool:
    return isinstance(way, UnixWay) and way.connection is connection


def _nothing() -> object:
    return None


def _over(link: str, reason: str) -> PeerLost:
    return PeerLost(f"link {link[:8]} has ended at its publisher: {reason}")
