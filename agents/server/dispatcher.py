"""Dispatcher: everything that is decided about a request, in one order, once.

::

    control word -> role -> lock -> lane -> object -> reply, which is kept and audited

    request                                     what happens
    control word ('info', 'ping', hello, ...)   answered at once
    handshake with any other content            refused: it is not addressed to this agent
    role of its key too low                     refused
    of an urgent member                         runs at once, beside whatever runs, lock or not
    of a concurrent member, but setting it      has a lane of its own, beside the lane of its object
    'inspect'; 'describe', [] that only look    likewise while something runs
    somebody else holds the lock                raised in its turn
    from a carrier whose threads wait           runs in that thread, in its turn, unless it is one-way
    else                                        runs in a worker of the lane, in its turn
    ... and its content is above 64 KiB         is decoded there, unless there are several lanes
    any, while the agent is being stopped       refused, and not executed
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any

from ...protocol.contents import PS, SEQUENCES, ps_message
from ...protocol.errors import FrameError, RemoteProtocolError, SignatureError
from ...protocol.keyring import Key, Role
from ...protocol.message import Message
from ...protocol.serializers import decode
from ...transport.endpoints import DECODE_LATER
from ...transport.loop import Loop
from ..current import reset_current, set_current
from .batch import run_batch
from .call import NO_ROUTE, NO_TABLE, UNREAD, Asker, Call, Calls, Frames, Packed, raised_in
from .exposed import NEEDS_AT_MOST, ExposedObject
from .lane import Lane, not_started
from .marks import Member
from .presence import Presence
from .replies import Replies, authorize
from .reply_cache import ReplyCache
from .urgent import Urgent

logger = logging.getLogger("pzc.dispatcher")

_LARGE = Member("a large content")
_NOTHING_FREE: Mapping[int, frozenset[str]] = dict.fromkeys(range(Role.ADMIN + 1), frozenset[str]())
_FREE: Mapping[int, frozenset[str]] = {
    role: frozenset(action for action, most in NEEDS_AT_MOST.items() if role >= most)
    for role in _NOTHING_FREE
}
_UNNAMED = frozenset({"batch", "next"})
_UNLOCKED = frozenset({"inspect", "describe", "batch"})


class Dispatcher:
    """Decides about the requests of one agent; safe from any thread.

    Args:
        loop: for the timers of calls that wait.
        replies: formats and sends the answers.
        lanes: orders of execution, by the numbers that members have.
        cache: keeps the answers for callers that lost their connection.
        presence: knows who is there, and who holds the lock.
        calls: that run or wait.
        role_needed: role that a content takes.
        on_request: answers any content; sender, topic, content, message id.

    Attributes:
        concurrent: lane of the members that are.
        control: answers a control word; False for any other content.
        exposed: what is served; None for an agent that serves nothing.
        audit: told every call: its answer, or why it was refused, and the seconds that it ran.
    """

    def __init__(
        self,
        loop: Loop,
        replies: Replies,
        lanes: list[Lane],
        cache: ReplyCache,
        presence: Presence,
        calls: Calls,
        role_needed: Callable[[Any], Role],
        on_request: Callable[[str, str, Any, str], Any],
    ) -> None:
        self._loop = loop
        self.replies = replies
        self.lanes = lanes
        self._cache = cache
        self.presence = presence
        self._table = calls.table
        self._role_needed = role_needed
        self._on_request = on_request
        self.control: Callable[[Call, Any], bool] = lambda request, content: False
        self.exposed: ExposedObject | None = None
        self._asks_always, self._asked_below = False, int(Role.ADMIN)
        self._free: Mapping[int, frozenset[str]] = _NOTHING_FREE
        self._act: Callable[[Call, str, dict[str, Any], Member], Any] | None = None
        self.audit: Callable[[Call, Any, float], object] | None = None
        self.concurrent = Lane("concurrent", concurrency=8)
        self._urgent = Urgent()

    def serve(self, exposed: ExposedObject, passes_on: bool) -> None:
        """Do what messages of proxies ask for.

        Args:
            exposed: with what.
            passes_on: they are for ``on_request``, which may come back with `answer`.
        """
        self.exposed, self._act = exposed, None if passes_on else exposed.act
        if not self._asks_always:
            self._free = _FREE

    def ask_always(self, always: bool) -> None:
        """Before `serve`: whether ``role_needed`` is asked about every signed call, of admins as well."""
        self._asks_always, self._asked_below = always, Role.ADMIN + always

    def handle(
        self, asker: Asker, message: Message, route: Frames = NO_ROUTE, handshake: bool = False,
    ) -> Packed | None:  # fmt: skip
        """Decide about a verified request.

        Args:
            asker: who sent it.
            message: the request.
            route: which its answer takes.
            handshake: it was not addressed to this agent.

        Returns:
            What is to be sent back now; None when it was sent, will be, or is not wanted.
        """
        call = Call(asker, message, route)
        call.began = call.since = monotonic()
        try:
            if self.presence.missing and not handshake:  # which anybody may say again
                self.presence.heard(asker.identity)
            if handshake:
                call.handshake = handshake
            at_once = len(message.content) <= DECODE_LATER
            # Which of several lanes a call is for, its content tells.
            if at_once or (not handshake and (asker.carrier.waits or len(self.lanes) > 1)):
                content = decode(
                    message.serializer, message.content, trusted=message.facts.trusted, writable=True
                )
                if type(content) not in SEQUENCES and self.control(call, content):
                    return None
                self._judge(call, content)
            elif handshake:
                raise FrameError(f"a handshake of {len(message.content)} bytes is too large")
            else:
                call.member = _LARGE
            if self._table.setdefault((asker.key_id, message.msgid), call) is not call:
                raise RemoteProtocolError(f"a call {call.id} runs here already; it is not executed again")
        except Exception as exc:
            return self._refused(call, exc)
        return self._place(call)

    def lane(self, member: Member, action: str) -> Lane:
        """In which an action of a member takes its turn."""
        lane = self.lanes[member.lane]
        beside = member.concurrent and action != "setattr" and not lane.affine
        return self.concurrent if beside else lane

    def _judge(self, call: Call, content: Any) -> None:
        """Say what a request is about, and whether its key may do that.

        Raises:
            SignatureError: when it is not addressed to this agent.
            RemoteProtocolError: for a batch that is none.
            RoleRefused: when it may not.
        """
        if call.handshake:
            raise SignatureError("the request is not addressed to this agent, which may have been restarted")
        call.content = content
        exposed, action = self.exposed, ""
        if exposed is not None and type(content) in SEQUENCES and len(content) == 3:
            mark, action, options = content
            if type(mark) is str and mark == PS and type(action) is str:
                if type(content[2]) is not dict:
                    options = NO_TABLE
                call.action, call.options = action, options
                call.member = (
                    exposed.unnamed(action, options) if action in _UNNAMED else exposed.member(options)
                )
                call.oneway = options.get("oneway") is True
            else:
                action = ""
        key = call.caller.key
        if key is not None and key.role < self._asked_below and action not in self._free[key.role]:
            self._authorize(key, content, action, call.options)

    def _authorize(self, key: Key, content: Any, action: str, options: dict[str, Any]) -> None:
        if action and not self._asks_always and self.exposed is not None:
            needed = self.exposed.role(action, options)
        else:
            needed = self._role_needed(content)
        authorize(key, needed)

    def _place(self, call: Call) -> Packed | None:
        """Run a call where and when it may."""
        member, action = call.member, call.action
        lane = self.lane(member, action) if member.concurrent else self.lanes[member.lane]
        try:
            exposed = self.exposed if lane.turns else None
            if member.urgent or (exposed and exposed.only_looks(action, call.options, member)):
                return self._beside(call)
            call.lane = lane
            if call.caller.carrier.waits and not (lane.affine or call.oneway):
                lane.enter(call)
            else:
                self._queue(call, lane)
                return None
        except Exception as exc:
            self._end(call)
            return self._refused(call, exc)
        return self._run(call, lane)

    def _beside(self, call: Call) -> Packed | None:
        """Run a call at once, whatever else runs."""
        call.begin()
        if call.caller.carrier.waits or not call.member.urgent:
            return self._run(call, None)
        call.run, call.give_up = self._run_queued, self._give_up
        if (error := self._urgent.submit(call)) is not None:
            self._give_up(call, error)
        return None

    def _queue(self, call: Call, lane: Lane) -> None:
        """Let a worker of the lane run a call, which is refused shortly before its caller gives up."""
        call.run, call.give_up = self._run_queued, self._give_up
        if not lane.submit(call) and (patience := call.patience) is not None:
            self._loop.call_later(patience, partial(_expire, weakref.ref(call), lane, patience))

    def _run_queued(self, call: Call) -> None:
        if call.content is UNREAD:
            try:
                content = call.message.decode(writable=True)
                if type(content) not in SEQUENCES and self.control(call, content):
                    self._end(call)
                    return
                self._judge(call, content)
            except Exception as exc:
                self._give_up(call, exc)
                return
        self._send(call, self._run(call, None))

    def _give_up(self, call: Call, error: Exception) -> None:
        self._end(call)
        self._send(call, self._refused(call, error))

    def _end(self, call: Call) -> None:
        self._table.pop((call.caller.key_id, call.message.msgid), None)

    def _send(self, call: Call, packed: Packed | None) -> None:
        if packed is not None:
            call.caller.carrier.send(call, packed)

    def _refused(self, call: Call, error: Exception) -> Packed | None:
        """Why a call was not executed."""
        self._note(call, error)
        packed = self.replies.encode_refusal(call, error)
        return None if call.oneway else packed

    def _note(self, call: Call, error: Exception) -> None:
        if self.audit is not None:
            self.audit(call, error, monotonic() - call.began)

    def _run(self, call: Call, lane: Lane | None) -> Packed | None:
        """Run a call, whose turn it is, and leave the lane; its answer."""
        if not self.presence.looking:
            self.presence.look()
        answer: Any = None
        try:
            if call.cancelled:  # on its way to its turn
                answer = not_started()
                packed = self.replies.encode_refusal(call, answer)
            else:
                answer = self._perform(call)
                packed = self.replies.encode(call, answer)
        except BaseException as exc:  # such as SystemExit, by a result that is being encoded
            logger.warning("the answer to %s could not be written", call.label, exc_info=exc)
            lost = RemoteProtocolError("the answer could not be written")
            packed = self.replies.encode_refusal(call, lost)
        finally:
            now = monotonic()
            if lane is not None:
                lane.leave(call)
        caller = call.caller
        if caller.native:
            self._cache.keep(call, packed, now)
        self._table.pop((caller.key_id, call.message.msgid), None)
        if self.audit is not None:
            self.audit(call, answer, now - call.since)
        return None if call.oneway else packed

    def _perform(self, call: Call) -> Any:
        """Run a call in the calling thread; the content of its answer."""
        token = set_current(call)
        try:
            action, options, act = call.action, call.options, self._act
            if action and (self.presence.lock.owner is not None or "lock" in options):
                self.check_lock(call, action, options, call.member)
            if not action or act is None:
                message = call.message
                return self._on_request(message.sender, message.topic, call.content, message.msgid)
            if action == "batch":
                return self.answer(call, action, options)
            return act(call, action, options, call.member)
        except BaseException as exc:  # a driver may call sys.exit or cancel an asyncio task
            return raised_in(call, call.action, exc)
        finally:
            if call.cancelled and call.stop is not None:
                call.stop.run()
            reset_current(token)

    def answer(self, call: Call, action: str, options: dict[str, Any]) -> Any:
        """The answer to a message of a proxy, whose turn it is.

        Raises:
            BaseException: whatever the served object raises.
        """
        exposed = self.exposed
        if exposed is None:
            raise RemoteProtocolError("this agent serves no object")
        if action == "batch":
            return run_batch(call, options, self._check_part, exposed, self.audit)
        return exposed.act(call, action, options, call.member)

    def _check_part(self, call: Call, action: str, options: dict[str, Any], member: Member) -> None:
        """Judge one call of a batch in its turn, as if it came by itself."""
        if (key := call.caller.key) is not None:
            self._authorize(key, ps_message(action, options), action, options)
        self.check_lock(call, action, options, member)

    def check_lock(self, call: Call, action: str, options: dict[str, Any], member: Member) -> None:
        """Judge an action of a call by the lock.

        Raises:
            LockedBy: somebody else holds it.
            LockLost: the caller relies on a lock that it does not hold (any more).
        """
        exposed, token = self.exposed, options.get("lock")
        if action in _UNLOCKED or member.urgent or exposed is None:
            return
        if token or not exposed.only_looks(action, options, member):
            self.presence.check(call.caller, token, exposed.only_reads(action, options))

    def close(self, timeout: float) -> None:
        """Refuse what waits and let end what runs, in at most so many seconds."""
        for lane in (*self.lanes, self.concurrent):
            lane.close(timeout)
        self._urgent.close()


def _expire(waiting: weakref.ref[Call], lane: Lane, patience: float) -> None:
    if (call := waiting()) is not None:  # held weakly: what is over must not live until then
        lane.remove(call, lane.late(call, patience))
