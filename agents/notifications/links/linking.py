"""Linking: how readers open, keep and close their links.

::

    word                                             answer
    {"pzc": "link", "link": id, "resume": n,         {"pzc": "link", "epoch": e}
     "way": "unix" or "tcp"}
    {"pzc": "interests", "link": id, "number": b,    {"pzc": "interests", "number": b, "confirmed":
     "commands": [command, ...]}                      [[interest, {topic: last}, window], ...]}; of one that
                                                      is refused [interest, refusal]; "types": {topic: type}
    {"pzc": "grant", "link": id, "received": n,      over unix nothing; over tcp what is new, within a second,
     "upto": a, "others": [...]}                      or nothing with "oneway": True
    {"pzc": "unlink", "link": id}                    {"pzc": "unlink"}

A command is ``[interest, topic, keys, policy, bound, timeout, on_timeout, who]``, or ``[interest]`` for one
that is given up. What an interest gets begins behind its last numbers. The same batch of commands is answered
the same. A link belongs to the agent and the key that opened it. One that is suspended, because its reader
was silent, goes on when it is opened again; one that has ended does not come back. Whoever speaks of either
otherwise is told so by `PeerLost`.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ....protocol import limits
from ....protocol.contents import as_text, refusal
from ....protocol.errors import PeerLost, Refused, RemoteProtocolError
from ....protocol.session import ARRAYS
from ....transport.lifelines import Lifeline
from ....transport.loop import Loop
from ....transport.wire import Protocol
from ...words import Connection, Replies, Request
from ..declared import Declared
from ..keeping import Keeping
from .granted import link_number, read_grant
from .local import LocalInlet
from .looking import Looking
from .outlet import Outlet, Owner
from .outlets import Outlets
from .topics import MAX_INTERESTS, Wanted, commands_of
from .ways import LocalWay, PollWay, UnixWay, Way

logger = logging.getLogger("pzc.links")

_REMEMBERED = 1000


class Linking:
    """The words of one publisher's links.

    Args:
        outlets: the links.
        loop: for what watches the readers' processes.
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
        self._looking = Looking(outlets, loop)
        self._over: dict[str, str] = {}
        self._lifelines: dict[str, Lifeline] = {}
        self.words: dict[str, Callable[[Request, dict[str, Any]], object]] = {
            "link": self._on_link,
            "interests": self._on_interests,
            "grant": self._on_grant,
            "unlink": self._on_unlink,
            "kept": partial(keeping.answer, replies),
        }
        outlets.on_end = self._on_end
        outlets.on_pause = on_change

    # --- opening -------------------------------------------------------------------------------------

    def attach(self, link: str, reader: str, inlet: LocalInlet) -> dict[str, Any]:
        """Open the link of a reader in this process.

        Args:
            link: its id.
            reader: agent id.
            inlet: gets the notifications.

        Returns:
            As the answer to the word ``link``.

        Raises:
            Refused, RemoteProtocolError: as the word ``link``.
        """
        outlet, answer = self._open(link, self._local(reader), True, 0)
        if outlet.way is None:
            epoch = self._protocol.epoch
            key_id = outlet.owner.key_id
            way = LocalWay(
                inlet, self._agent_id, self._name, epoch, key_id, self._partition, self._declared.names
            )
            self._outlets.attach(outlet, way, 0, _nothing)
        return answer

    def want(self, link: str, reader: str, content: dict[str, Any]) -> dict[str, Any]:
        """Tell of the interests of a reader in this process.

        Returns:
            As the answer to the word ``interests``.

        Raises:
            PeerLost, RemoteProtocolError: as that word.
        """
        return self._want(self._open_one(link, self._local(reader)), content)

    def _local(self, reader: str) -> Owner:
        keyring = self._protocol.codec.keyring
        return Owner(reader, "" if keyring is None else keyring.calling.key_id)

    def _on_link(self, request: Request, content: dict[str, Any]) -> None:
        over_unix = content.get("way") == "unix"
        connection = request.connection if over_unix else None
        if over_unix:
            self._check_connection(connection, as_text(content.get("link")))
        link, received = as_text(content.get("link")), link_number(content.get("resume", 0))
        arrays = bool(request.message.sequence & ARRAYS)
        is_new = link not in self._outlets.links
        outlet, answer = self._open(link, _owner(request), arrays, received)
        tell = partial(self._replies.reply, request, answer)
        way = outlet.way
        if connection is not None:
            if not _is_over(way, connection):
                try:
                    unix = self._unix_way(outlet, connection, request)
                except OSError as exc:
                    raise self._short(outlet, exc, is_new) from exc
                self._outlets.attach(outlet, unix, received, tell)
                return
        elif not isinstance(way, PollWay):
            self._outlets.attach(outlet, PollWay(), received, tell)
            return
        tell()

    def _check_connection(self, connection: Connection | None, link: str) -> None:
        if connection is None:
            raise Refused("a link over a Unix socket is opened on the connection that it will use")
        outlet = self._outlets.links.get(link)
        if connection.is_link and (outlet is None or not _is_over(outlet.way, connection)):
            raise Refused("the connection is that of another link")

    def _open(self, link: str, owner: Owner, arrays: bool, received: int) -> tuple[Outlet, dict[str, Any]]:
        outlets = self._outlets
        with outlets.lock:
            outlet = self._find(link, owner) or self._new(link, owner, arrays, received)
            outlet.queue.check(received)
        self._looking.watch()
        return outlet, {"pzc": "link", "epoch": self._protocol.epoch}

    def _new(self, link: str, owner: Owner, arrays: bool, received: int) -> Outlet:
        outlets = self._outlets
        if not re.fullmatch(r"[0-9a-f]{32}", link):
            raise RemoteProtocolError(f"the id of a link has 32 hexadecimal digits, not {link[:40]!r}")
        if received:
            raise _over(link, "it was silent for too long")
        if len(outlets.links) >= limits.current.links:
            self._looking.make_room()
        if len(outlets.links) >= limits.current.links:
            raise Refused(f"this agent has {limits.current.links} links already")
        outlet = Outlet(link, owner, arrays, outlets.lock, outlets.ring, time.monotonic())
        outlets.add(outlet)
        return outlet

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

    def _on_interests(self, request: Request, content: dict[str, Any]) -> None:
        outlet = self._open_one(as_text(content.get("link")), _owner(request))
        self._replies.reply(request, self._want(outlet, content))

    def _want(self, outlet: Outlet, content: dict[str, Any]) -> dict[str, Any]:
        number, commands = link_number(content.get("number")), commands_of(content.get("commands"))
        with self._outlets.lock:
            applied, confirmed = outlet.applied
            if number < applied:
                raise RemoteProtocolError(f"batch {number} of interests came behind batch {applied}")
            if number > applied:
                confirmed = [told for each in commands if (told := self._obey(outlet, each))]
                outlet.applied = number, confirmed
                self._outlets.routes.renew()
        self._on_change(before_confirming=True)
        types = self._declared.of(each.topic for each in commands if not isinstance(each, int))
        return {"pzc": "interests", "number": number, "confirmed": confirmed, "types": types}

    def _obey(self, outlet: Outlet, command: Wanted | int) -> list[Any]:
        """Act upon a command; what it is answered with, nothing when an interest was given up."""
        if isinstance(command, int):
            outlet.cease(command)
            return []
        routes, topic = self._outlets.routes, command.topic
        try:
            routes.about(topic).check(topic, command.policy, outlet.kind)
            if outlet.size + 1 + len(command.keys or ()) > MAX_INTERESTS:
                raise Refused(f"a link has at most {MAX_INTERESTS} interests and keys")
        except Refused as exc:
            return [command.interest, refusal(exc)]
        return [command.interest, *routes.follow(outlet, command)]

    # --- ways ----------------------------------------------------------------------------------------

    def _unix_way(self, outlet: Outlet, connection: Connection, request: Request) -> UnixWay:
        outlets = self._outlets
        lifeline = Lifeline(self._loop, connection.pid, partial(outlets.end, outlet, "its process has ended"))
        before = self._lifelines.get(outlet.link)
        self._lifelines[outlet.link] = lifeline
        if before is not None:
            before.close()
        make = partial(UnixWay, self._loop, request, partial(outlets.refill, outlet))
        return connection.become_link(make, partial(self._lost, outlet, connection))

    def _short(self, outlet: Outlet, error: OSError, is_new: bool) -> Refused:
        """The refusal of a Unix way, for which something is missing here; an older link stays, for others."""
        reason = f"this publisher cannot open what a link over a Unix socket needs: {error}"
        if is_new:
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

    def _on_grant(self, request: Request, content: dict[str, Any]) -> None:
        request.oneway = bool(content.get("oneway"))
        outlet = self._open_one(as_text(content.get("link")), _owner(request))
        received, upto, others = read_grant(content)
        self._outlets.acknowledged(outlet, received, upto, others)
        way = outlet.way
        if isinstance(way, PollWay) and not request.oneway:
            self._poll(outlet, way, request, received)

    def _poll(self, outlet: Outlet, way: PollWay, request: Request, received: int) -> None:
        outlets = self._outlets
        with outlets.lock:
            if received < outlet.queue.sent:  # the answer to the poll before was lost
                outlet.attach(way, received)
            way.wait(request, received + 1)
            outlet.pull()
        outlet.flush()

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

    def _on_unlink(self, request: Request, content: dict[str, Any]) -> None:
        outlet = self._of(as_text(content.get("link")), _owner(request))
        self._replies.reply(request, {"pzc": "unlink"})
        self._outlets.end(outlet, "its reader closed it")

    # --- local readers -------------------------------------------------------------------------------

    def acknowledge(self, link: str, received: int, upto: int, others: list[int]) -> None:
        """What a reader in this process has, and is done with; nothing for a link that is over.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        outlet = self._outlets.links.get(link)
        if outlet is not None:
            self._outlets.acknowledged(outlet, received, upto, others)

    def detach(self, link: str) -> None:
        """A reader in this process closes its link."""
        outlet = self._outlets.links.get(link)
        if outlet is not None:
            self._outlets.end(outlet, "its reader closed it")

    def _on_end(self, outlet: Outlet, way: Way | None) -> None:
        with self._outlets.lock:
            self._over[outlet.link] = outlet.ended
            while len(self._over) > _REMEMBERED:
                del self._over[next(iter(self._over))]
        self._release(outlet)
        if isinstance(way, LocalWay):
            way.inlet.ended(outlet.ended)
        self._on_change()

    def _release(self, outlet: Outlet) -> None:
        lifeline = self._lifelines.pop(outlet.link, None)
        if lifeline is not None:
            lifeline.close()


def _is_over(way: Way | None, connection: Connection) -> bool:
    return isinstance(way, UnixWay) and way.connection is connection


def _nothing() -> None:
    return None


def _over(link: str, reason: str) -> PeerLost:
    return PeerLost(f"link {link[:8]} has ended at its publisher: {reason}")


def _owner(request: Request) -> Owner:
    return Owner(request.message.sender, request.message.key_id)
