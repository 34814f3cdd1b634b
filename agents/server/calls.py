"""Calls: what runs or waits in an agent's lanes, and who asked for it.

::

    call       event                          next
    waiting    its turn                       running
    waiting    cancel                         over: answered with CallCancelled, never executed
    running    cancel                         running; `cancelled` is True for it from now on
    running    answered                       over
"""

from __future__ import annotations

import logging
import threading
import typing
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from ...protocol.contents import ps_message, text_of
from ...protocol.errors import PzcError
from ...protocol.keyring import Role
from ...protocol.message import Identity
from ...protocol.session import REFERENCES
from ...protocol.shown import printable
from ...transport.wire import Protocol
from ..current import Caller
from .lane import Lane, Turn
from .member import NOTHING, Member
from .request import Asker, Request

logger = logging.getLogger("pzc.dispatcher")

UNREAD = object()
"""Content that is decoded where its call runs."""

LATE = 0.25
"""Seconds, at most, before its caller gives up, that a call which still waits is refused."""

LONGEST = 1e9
"""Seconds that a caller may say that it waits."""

NO_TABLE: dict[str, Any] = {}
"""Options of a message that has none, or something else in their place, which is told in its turn."""


class Call(Request, Turn):
    """One request that runs or waits.

    Attributes:
        content: decoded; `UNREAD` before.
        action: what is done, of a message of a proxy; empty for any other content.
        options: of the action; empty without one.
        member: with what.
        cancelled: whoever made it has given it up.
        detached: it outlives whoever made it.
        began: when it came, in monotonic seconds.
    """

    content: Any = UNREAD
    action = ""
    options: dict[str, Any] = NO_TABLE
    member = NOTHING
    cancelled = False
    detached = False
    began = 0.0
    lane: Lane | None = None
    run: Callable[[Call], object] | None = None
    give_up: Callable[[Call, Exception], object] | None = None
    _watchers: tuple[Callable[[], object], ...] = ()

    @property
    def id(self) -> str:
        """Of its request."""
        return self.message.msgid

    @property
    def made_by(self) -> Caller:
        """Who made it, as a served method learns it."""
        asker = self.caller
        return Caller(asker.key_name, asker.agent, asker.carrier.kind, asker.user)

    @property
    def protocol(self) -> Protocol:
        """Of the agent that runs it."""
        return self.caller.protocol

    @property
    def label(self) -> str:
        """What it is and for whom, for people."""
        caller = self.caller
        who = caller.key_name or f"agent {caller.agent[:8]}"
        return f"{self.member.text or self.action or 'a request'} for {who}"

    @property
    def can_refer(self) -> bool:
        """True when whoever made it reads references and notes."""
        return bool(self.message.sequence & REFERENCES)

    @property
    def original(self) -> bool:
        """True when an original Pizco made it."""
        return "://" in self.caller.agent

    @property
    def patience(self) -> float | None:
        """Seconds for which it may wait for its turn, a little less than its caller does; None for ever."""
        seconds = self.options.get("timeout")
        if not isinstance(seconds, float | int) or not 0 < seconds < LONGEST:
            return None
        return seconds - min(LATE, seconds / 10)

    def work(self) -> None:
        """Run it; in a worker of its lane."""
        if self.run is not None:
            self.run(self)

    def refuse(self, error: Exception) -> None:
        """Its turn will not come."""
        if self.give_up is not None:
            self.give_up(self, error)

    def is_unwanted(self) -> bool:
        """True when whoever made it has left."""
        return self.caller.carrier.is_gone()

    def watch(self, on_cancel: Callable[[], object]) -> None:
        """Call ``on_cancel`` when the call is cancelled, at once if it was. Any thread."""
        self._watchers = (*self._watchers, on_cancel)
        if self.cancelled:
            on_cancel()

    def tell(self) -> None:
        """Cancel it, as far as it looks at that."""
        self.cancelled = True
        watchers, self._watchers = self._watchers, ()
        for watcher in watchers:
            watcher()


class Exposed(typing.Protocol):
    """What is served: the one table of what a peer may touch.

    Attributes:
        needs_at_most: by action the highest role that `role` may give.
    """

    needs_at_most: Mapping[str, Role]

    def member(self, options: dict[str, Any]) -> Member:
        """What a message names; never raises, and runs nothing of the user's."""
        ...

    def unnamed(self, action: str, options: dict[str, Any]) -> Member:
        """What a message is about that names nothing: that of its stream, or of the first call of its batch.

        Raises:
            RemoteProtocolError: for a batch that is none.
        """
        ...

    def role(self, action: str, options: dict[str, Any]) -> Role:
        """The role that it takes.

        Raises:
            RemoteProtocolError: for a batch that is none.
        """
        ...

    def only_reads(self, action: str, options: dict[str, Any]) -> bool:
        """True for what may be done while somebody else holds the lock, where the server says so."""
        ...

    def act(self, call: Call, action: str, options: dict[str, Any], member: Member) -> Any:
        """Do it with what `member` said of it, in its turn; the message of the answer.

        Raises:
            BaseException: whatever the object raises.
        """
        ...

    def drop(self, stream_id: object, caller: Asker) -> None:
        """Close a stream early."""
        ...

    def cancelled(self, call: Call) -> None:
        """A call was cancelled while it ran: do what its member's ``on_cancel`` says; in the same turn."""
        ...


class Calls:
    """Calls of one agent; safe from any thread.

    Attributes:
        table: by the key that made them, and id.
    """

    def __init__(self) -> None:
        self.table: dict[tuple[str, str], Call] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.table)

    def has(self, call: Call) -> bool:
        """True for a call that runs or waits."""
        return self.table.get((call.caller.key_id, call.message.msgid)) is call

    def all(self) -> list[Call]:
        """What runs and waits now, oldest first."""
        return list(self.table.values())

    def find(self, call_id: str, key_id: str) -> Call | None:
        """The call of that id that was made with this key, or None."""
        return self.table.get((key_id, call_id))

    def find_any(self, call_id: str) -> Call | None:
        """The first call of that id, whoever made it, or None."""
        return next((call for call in self.all() if call.message.msgid == call_id), None)

    def cancel(self, call: Call) -> str:
        """Remove a call that waits, tell one that runs; ``removed`` or ``told``."""
        with self._lock:  # one that is cancelled twice is told once
            call.cancelled = True
        if call.lane is not None and call.lane.remove(call):
            return "removed"
        call.tell()
        return "told"

    def cancel_of(self, identity: Identity) -> int:
        """Cancel all that a dead agent asked for, but what is detached; how many calls those are."""
        theirs = [call for call in self.all() if call.caller.identity == identity and not call.detached]
        for call in theirs:
            self.cancel(call)
        return len(theirs)

    def running(self) -> list[dict[str, Any]]:
        """What runs and waits now, for people and programs: member, caller, seconds and state."""
        now = monotonic()
        return [
            {
                "id": call.id, "member": call.member.text or call.action, "action": call.action,
                "caller": call.caller.key_name, "agent": call.caller.agent, "address": call.caller.address,
                "since": round(now - call.since, 3), "state": "running" if call.runs else "waiting",
                "cancelled": call.cancelled,
            }
            for call in self.all()
        ]  # fmt: skip


def log_raised(call: Call, action: str, error: BaseException) -> None:
    """Log what an action of a call raised."""
    ours = isinstance(error, PzcError | AttributeError)
    logger.log(
        logging.INFO if ours else logging.WARNING,
        "%s %s of %s raised %s: %s",
        action, call.member.text, printable(call.caller.agent), type(error).__name__,
        printable(text_of(error)),
        exc_info=None if ours else error,
    )  # fmt: skip


def note_of(call: Call) -> tuple[str, str, object]:
    """What a caller is told while its call takes long: that it is still wanted, and what runs."""
    now = monotonic()
    lane = call.lane
    running = (
        [] if lane is None else [f"{each.label} since {now - each.since:.1f} s" for each in lane.running]
    )
    return ps_message("running", {"state": "running" if call.runs else "waiting", "running": running})
