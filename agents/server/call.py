"""Call: one verified request, who asks, and the way back; and the calls that run or wait in an agent's lanes.

What is the same for all requests of one session stands in an `Asker`, which is made once.

::

    call       event                          next
    waiting    its turn                       running
    waiting    cancel                         over: answered with CallCancelled, never executed
    running    cancel                         running; `cancelled` is True for it from now on
    running    answered                       over
"""

from __future__ import annotations

import logging
import typing
from collections.abc import Callable
from time import monotonic, time
from typing import Any, NamedTuple

from ...protocol.contents import ps_message, raised
from ...protocol.errors import PzcError, RemoteProtocolError
from ...protocol.exceptions import text_of
from ...protocol.frames import Buffer
from ...protocol.keyring import Key, Role
from ...protocol.message import Identity, Message
from ...protocol.session import REFERENCES, Session, pack_answer
from ...protocol.shown import plain, printable
from ...transport.wire import Protocol
from .lane import Lane, QueueEntry
from .marks import NOTHING

logger = logging.getLogger("pzc.dispatcher")

Frames = list[Buffer]

Packed = tuple[str, Buffer]
"""Serializer, and what it made of a content."""


class Carrier(typing.Protocol):
    """What brought requests and takes their answers back.

    Attributes:
        kind: ``unix`` or ``tcp``.
        protocol: of the agent that is asked.
        waits: each of its requests has a thread of its own, which may wait for a turn.
        connected: its end is the end of whoever asks, which `is_gone` knows.
    """

    kind: str
    protocol: Protocol
    waits: bool
    connected: bool

    def send(self, request: Call, packed: Packed) -> bool:
        """Send an answer; False when there is no way any more. Any thread."""
        ...

    def is_gone(self) -> bool:
        """True when whoever asks is known to have left."""
        ...


class Caller(NamedTuple):
    """Who makes a call, as a served method learns it.

    Attributes:
        key: proven name of the key; empty without keys.
        agent: id of the calling agent; of one without sessions its REP endpoint.
        host: where it is: ``unix`` on the same host, ``tcp`` elsewhere.
        user: user id on the same host; None elsewhere.
    """

    key: str
    agent: str
    host: str
    user: int | None


class Asker:
    """Whoever asks over one session: the proven key, the agent, where it is, and the way back.

    Args:
        agent: its id; of one without sessions its REP endpoint.
        key: with which it signs; None without keys.
        address: where it is, for people, such as ``unix pid 4711 uid 0``.
        carrier: of its requests.
        session: seals answers over REP and to links; None over a stream, and for what is not `native`.
        user: user id on this host; None elsewhere.

    Attributes:
        identity: what is kept for it stands under this.
        key_name: proven name, empty when unsigned.
        key_id: of the proven key, empty when unsigned.
        native: False for whom `compat.pizco` brought.
    """

    __slots__ = (
        "address", "agent", "carrier", "identity", "key", "key_id", "key_name", "native", "protocol",
        "session", "user",
    )  # fmt: skip

    def __init__(
        self,
        agent: str,
        key: Key | None,
        address: str,
        carrier: Carrier,
        session: Session | None = None,
        user: int | None = None,
    ) -> None:
        self.agent = agent
        self.key = key
        self.key_name = "" if key is None else key.name
        self.key_id = "" if key is None else key.key_id
        self.address = address
        self.carrier = carrier
        self.session = session
        self.user = user
        self.native = True
        self.protocol = carrier.protocol
        self.identity = Identity(self.key_id, agent)


NO_ROUTE: Frames = []


UNREAD = object()
"""Content that is decoded where its call runs."""

LATE = 0.25
"""Seconds, at most, before its caller gives up, that a call which still waits is refused."""

LONGEST = 1e9
"""Seconds that a caller may say that it waits."""

NO_TABLE: dict[str, Any] = {}
"""Options of a message that has none, or something else in their place, which is told in its turn."""


class Call(QueueEntry):
    """One verified request, which is answered at once, or runs or waits.

    Args:
        caller: who asks.
        message: verified, not decoded.
        route: which the answer takes.

    Attributes:
        handshake: the receiver's agent id was not under the signature.
        oneway: its sender wants no answer.
        content: decoded; `UNREAD` before.
        action: what is done, of a message of a proxy; empty for any other content.
        options: of the action; empty without one.
        member: with what.
        stop: `Stop` of what runs now, where `on_cancel` names something; None without such.
        cancelled: whoever made it has given it up.
        began: when it came, in monotonic seconds.
    """

    # What most calls keep stands here once, instead of being set in each.
    handshake = False
    oneway = False
    content: Any = UNREAD
    action = ""
    options: dict[str, Any] = NO_TABLE
    member = NOTHING
    stop: Any = None
    cancelled = False
    began = 0.0
    lane: Lane | None = None
    run: Callable[[Call], object] | None = None
    give_up: Callable[[Call, Exception], object] | None = None
    _watchers: tuple[Callable[[], object], ...] = ()

    def __init__(self, caller: Asker, message: Message, route: Frames = NO_ROUTE) -> None:
        self.caller = caller
        self.message = message
        self.route = route

    @property
    def id(self) -> str:
        """Of its request."""
        return self.message.msgid

    @property
    def detached(self) -> bool:
        """True when it outlives its caller; a one-way call does, unless `on_cancel` names what stops it."""
        one_way = self.oneway and self.member.on_cancel is None
        return one_way or self.options.get("detached") is True

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
        return f"{self.member.text or self.action or 'a request'} for {self.whom}"

    @property
    def whom(self) -> str:
        """Its caller, for people."""
        return self.caller.key_name or f"agent {self.caller.identity.short}"

    @property
    def key_id(self) -> str:
        """Of the key that signed it; empty without keys."""
        return self.caller.key_id

    @property
    def can_refer(self) -> bool:
        """True when whoever made it reads references and notes."""
        return bool(self.message.sequence & REFERENCES)

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

    def unwatch(self, on_cancel: Callable[[], object]) -> None:
        """Do not, as `watch` was told once. Any thread."""
        self._watchers = tuple(each for each in self._watchers if each != on_cancel)

    def following(self) -> Call:
        """What is done for the same caller behind it, and was not cancelled."""
        made = Call(self.caller, self.message)
        made.lane, made.member = self.lane, self.member
        return made

    def tell(self) -> None:
        """Cancel it, as far as it looks at that."""
        self.cancelled = True
        watchers, self._watchers = self._watchers, ()
        for watcher in watchers:
            watcher()

    @property
    def role(self) -> Role | None:
        """Of the key that signed it; None without keys."""
        return None if self.caller.key is None else self.caller.key.role

    def answer(self, content: object, serializer: str) -> bool:
        """Send an answer in another serializer, unless none is wanted; False when there is no way any more.

        Raises:
            SerializeError: when the serializer cannot express the content.
            RemoteProtocolError: to an agent that reads no other.
        """
        if not self.caller.native:
            raise RemoteProtocolError(f"{self.caller.agent} reads no {serializer}")
        packed = pack_answer(content, self.message, serializer)
        return self.oneway or self.caller.carrier.send(self, packed)


class Calls:
    """Calls of one agent; safe from any thread.

    Attributes:
        table: by the key that made them, and id.
    """

    def __init__(self) -> None:
        self.table: dict[tuple[str, str], Call] = {}

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


def raised_in(call: Call, action: str, error: BaseException) -> tuple[str, str, Any]:
    """The answer to an action of a call that raised, which is logged: its traceback is written down once."""
    ours = isinstance(error, PzcError | AttributeError)
    answer: tuple[str, str, Any] = raised(error)
    told = (
        printable(action),
        call.member.text,
        call.caller.identity.shown,
        type(error).__name__,
        printable(text_of(answer[2][0])),
    )
    level = logging.INFO if ours else logging.WARNING
    if logger.isEnabledFor(level):
        sent: BaseException = answer[2][0]  # of the error itself an attribute may raise
        trace = None if ours else (type(sent), sent, None)
        text = "%s %s of %s raised %s: %s"
        record = logger.makeRecord(logger.name, level, __file__, 0, text, told, trace)
        if not ours:
            record.exc_text = "Traceback (most recent call last):\n" + plain("".join(answer[2][1])).rstrip()
        logger.handle(record)
    return answer


def note_of(call: Call) -> tuple[str, str, object]:
    """What a caller is told while its call takes long: which one runs, if any does."""
    there = () if call.lane is None else call.lane.running
    running = call if call.runs else next((each for each in there if isinstance(each, Call)), None)
    if running is None:
        return ps_message("running", {})
    since = time() - (monotonic() - running.since)
    return ps_message(
        "running", {"member": running.member.text or running.action, "caller": running.whom, "since": since}
    )
