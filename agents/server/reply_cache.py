"""Reply cache: what calls were answered, kept so that a caller that lost its connection can ask again.

::

    state     event                        next
    -         method returned a future     running
    running   future done                  kept (waiting requests answered)
    running   asked                        running (request held, 'pending' after `result_wait`)
    -         a call was answered          kept, as it was encoded
    kept      asked                        kept (answered again: the reply may have been lost)
    kept      `result_kept` s, or no room  forgotten

Only the key that made a call may ask for its result, whatever agent it asks from: a crashed client
comes back as another one. Every key has a room of its own, which no other key can fill, nor take an id in it.
Bounds of each: `running_futures` futures, `results_kept` answers, `result_bytes` of them; beyond, new
futures are refused and the oldest answers are forgotten.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from ...protocol import limits, serializers
from ...protocol.contents import ps_message
from ...protocol.errors import Refused
from ...protocol.message import Identity
from ...transport.loop import Loop
from .call import Asker, Call, Packed

_RESULT_BYTES = 64 << 20
"""Bytes of all results that one server keeps for each key."""

_RESULTS_KEPT = 10_000
"""Results that one server keeps for each key."""


ASK_AGAIN = 0.2
"""Seconds after which a request for the result of a running call is answered 'pending'."""

SMALL = 4096
"""Bytes of a small answer; `results_kept` of these are kept beside the others."""

Reply = Callable[[object], object]
"""Answers a request that asks for a result."""

_numbers = itertools.count(1)


@dataclass(slots=True)
class _Running:
    agent: str
    waiting: list[Reply] = field(default_factory=list)


class _Kept(NamedTuple):
    at: float
    packed: Packed | None
    outcome: object = None

    @property
    def size(self) -> int:
        return 0 if self.packed is None else len(self.packed[1])


class _Room:
    """What is kept for the calls that one key made, by call id."""

    def __init__(self) -> None:
        self.running: dict[str, _Running] = {}
        self.kept: OrderedDict[str, _Kept] = OrderedDict()
        self.bytes = 0
        self.small: deque[tuple[str, float, Packed]] = deque(maxlen=_RESULTS_KEPT)

    def __len__(self) -> int:
        return len(self.running) + len(self.kept) + len(self.small)

    def find(self, call_id: str) -> _Kept | None:
        kept = self.kept.get(call_id)
        if kept is not None:
            return kept
        for known, at, packed in self.small.copy():
            if known == call_id:
                return None if call_id in self.running else _Kept(at, packed)
        return None

    def keep(self, call_id: str, kept: _Kept) -> None:
        known = self.kept.get(call_id)
        outcome_known = call_id in self.running or (known is not None and known.packed is None)
        if kept.packed is not None and outcome_known:
            return  # this answer only tells that there is a future
        if known is not None:
            self.bytes -= self.kept.pop(call_id).size
        self.kept[call_id] = kept
        self.bytes += kept.size
        oldest = kept.at - limits.current.result_kept
        while self.kept:
            first = next(iter(self.kept.values()))
            few = len(self.kept) <= _RESULTS_KEPT and self.bytes <= _RESULT_BYTES
            if first.at > oldest and few:
                return
            self.bytes -= self.kept.popitem(last=False)[1].size


class ReplyCache:
    """Results by the key that made the call and call id; safe from any thread.

    Args:
        loop: for the timeouts.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._rooms: dict[str, _Room] = {}

    def __len__(self) -> int:
        return sum(map(len, list(self._rooms.values())))

    def _room(self, key_id: str) -> _Room:
        room = self._rooms.get(key_id)
        return self._rooms.setdefault(key_id, _Room()) if room is None else room

    def keep(self, call: Call, packed: Packed, at: float) -> None:
        """Keep the answer of a call, from then on (monotonic seconds); a small one costs next to nothing."""
        body = packed[1]
        room = self._rooms.get(call.caller.key_id)
        if room is None:
            room = self._room(call.caller.key_id)
        if len(body) <= SMALL:
            room.small.append((call.message.msgid, at, packed))
            return
        with self._lock:
            room.keep(call.message.msgid, _Kept(at, packed))

    def register(self, call: Call, future: Future[Any], outcome: Callable[[Future[Any]], object]) -> str:
        """Keep the outcome of a future that a call gave; the id under which it is asked for.

        Args:
            call: whose result it is.
            future: is done at some time.
            outcome: message about a future that is done.

        Raises:
            Refused: when `running_futures` futures are running.
        """
        call_id = call.message.msgid or f"direct-{next(_numbers)}"
        room = self._room(call.caller.key_id)
        with self._lock:
            if len(room.running) >= limits.current.running_futures:
                raise Refused(
                    f"{limits.current.running_futures} futures of this server are still running for this "
                    "key: wait for some, or cancel them"
                )
            room.running[call_id] = _Running(call.caller.agent)
        future.add_done_callback(partial(self._finish, room, call_id, outcome))
        return call_id

    def _finish(
        self, room: _Room, call_id: str, outcome_of: Callable[[Future[Any]], object], future: Future[Any]
    ) -> None:
        outcome = outcome_of(future)
        with self._lock:
            room.keep(call_id, _Kept(monotonic(), None, outcome))
            waiting = room.running.pop(call_id).waiting
        for reply in waiting:
            reply(outcome)

    def ask(self, call_id: str, caller: Asker, running: bool, reply: Reply) -> None:
        """Answer now when the result is there, else when it comes, else 'pending'.

        Args:
            call_id: of the call.
            caller: who asks.
            running: True when the call itself still runs or waits: asked for again later.
            reply: sends the answer.

        Raises:
            Refused: when no such result is kept for this key.
        """
        room = self._room(caller.key_id)
        with self._lock:
            entry = room.running.get(call_id)
            kept = room.find(call_id)
            if entry is not None:
                entry.waiting.append(reply)
        if entry is not None:
            later = partial(self._still_running, room, call_id, reply)
            self._loop.call_later(limits.current.result_wait, later)
        elif kept is not None and monotonic() - kept.at < limits.current.result_kept:
            reply(kept.outcome if kept.packed is None else serializers.decode(*kept.packed, trusted=True))
        elif running:
            self._loop.call_later(ASK_AGAIN, lambda: reply(ps_message("pending", None)))
        else:
            raise Refused(
                f"no result is kept for call {call_id}: it never came here, ended more than "
                f"{limits.current.result_kept:g} s ago, or is another key's"
            )

    def _still_running(self, room: _Room, call_id: str, reply: Reply) -> None:
        with self._lock:
            entry = room.running.get(call_id)
            if entry is None or reply not in entry.waiting:
                return
            entry.waiting.remove(reply)
        reply(ps_message("pending", None))

    def forget_agent(self, sender: Identity) -> None:
        """Drop the held requests of a dead agent; what it called for is kept for its successor."""
        with self._lock:
            for entry in self._room(sender.key_id).running.values():
                if entry.agent == sender.agent:
                    entry.waiting.clear()
