"""Results: what calls were answered, kept so that a caller that lost its connection can ask again.

::

    state     event                        next
    -         method returned a future     running
    running   future done                  kept (waiting requests answered)
    -         a bundle of calls came       open: outcomes are kept one by one, all forgotten together
    running   asked                        running (request held, 'pending' after `result_wait`)
    -         a call was answered          kept, as the frames that were sent
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
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ...protocol import limits, serializers
from ...protocol.envelope import Identity
from ...protocol.errors import PzcError, Refused, RemoteProtocolError
from ...protocol.frames import Kind
from ..messages import ps_message, raised
from ..sockets.loop import Loop
from ..wire import Protocol
from .calls import Call, Caller
from .references import by_value
from .replies import Frames

ASK_AGAIN = 0.2
"""Seconds after which a request for the result of a running call is answered 'pending'."""

SMALL = 4096
"""Bytes of a small answer; `results_kept` of these are kept beside the others."""

MAX_COPIED = 1 << 20
"""Bytes up to which an answer in shared memory is copied to be kept; a larger one is not kept."""

Reply = Callable[[object], object]

_numbers = itertools.count(1)


@dataclass(slots=True)
class _Running:
    agent: str
    waiting: list[Reply] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Outcomes:
    """What the calls of one bundle were answered.

    Attributes:
        key_id: who made them.
        serializer: of the bodies.
        ids: of all of its calls.
        bodies: encoded answers by call id; any thread may add one.
        at: when the last call was over, in monotonic seconds; 0 before.
    """

    key_id: str
    serializer: str
    ids: list[str]
    bodies: dict[str, bytes] = field(default_factory=dict)
    at: float = 0.0
    size: int = 0


@dataclass(slots=True)
class _Kept:
    receiver: str
    at: float
    frames: Frames | None
    outcome: object = None


class _Encoded(NamedTuple):
    serializer: str
    body: bytes


class _Room:
    """What is kept for the calls that one key made, by call id."""

    def __init__(self) -> None:
        self.running: dict[str, _Running] = {}
        self.kept: OrderedDict[str, _Kept] = OrderedDict()
        self.bytes = 0
        self.small: deque[tuple[str, str, float, Frames]] = deque(maxlen=limits.current.results_kept)
        self.bundled: dict[str, Outcomes] = {}
        self.over: deque[Outcomes] = deque()
        self.over_calls = self.over_bytes = 0

    def __len__(self) -> int:
        return len(self.running) + len(self.kept) + len(self.small) + len(self.bundled)

    def find(self, call_id: str) -> _Kept | None:
        kept = self.kept.get(call_id)
        if kept is not None:
            return kept
        for known, receiver, at, frames in self.small.copy():
            if known == call_id:
                return _Kept(receiver, at, frames)
        bundled = self.bundled.get(call_id)
        if bundled is None or (body := bundled.bodies.get(call_id)) is None:
            return None
        return _Kept("", bundled.at or time.monotonic(), None, _Encoded(bundled.serializer, body))

    def keep(self, call_id: str, kept: _Kept) -> None:
        known = self.kept.get(call_id)
        outcome_known = call_id in self.running or (known is not None and known.frames is None)
        if kept.frames is not None and outcome_known:
            return  # this answer only tells that there is a future
        if known is not None:
            self.bytes -= _size(self.kept.pop(call_id))
        self.kept[call_id] = kept
        self.bytes += _size(kept)
        oldest = kept.at - limits.current.result_kept
        while self.kept:
            first = next(iter(self.kept.values()))
            if (
                first.at > oldest
                and len(self.kept) <= limits.current.results_kept
                and self.bytes <= limits.current.result_bytes
            ):
                return
            self.bytes -= _size(self.kept.popitem(last=False)[1])

    def close(self, outcomes: Outcomes) -> None:
        self.over.append(outcomes)
        self.over_calls += len(outcomes.ids)
        self.over_bytes += outcomes.size
        while self.over_calls > limits.current.results_kept or self.over_bytes > limits.current.result_bytes:
            oldest = self.over.popleft()
            self.over_calls -= len(oldest.ids)
            self.over_bytes -= oldest.size
            self.drop(oldest)

    def drop(self, outcomes: Outcomes) -> None:
        for call_id in outcomes.ids:
            del self.bundled[call_id]


class Results:
    """Results by the key that made the call and call id; safe from any thread.

    Args:
        loop: for the timeouts.
        protocol: reads kept answers.
    """

    def __init__(self, loop: Loop, protocol: Protocol) -> None:
        self._loop = loop
        self._protocol = protocol
        self._lock = threading.Lock()
        self._rooms: dict[str, _Room] = {}

    def __len__(self) -> int:
        return sum(map(len, list(self._rooms.values())))

    def _room(self, key_id: str) -> _Room:
        room = self._rooms.get(key_id)
        return self._rooms.setdefault(key_id, _Room()) if room is None else room

    def open(self, outcomes: Outcomes) -> None:
        """Keep the outcomes of a bundle's calls from now on.

        Raises:
            RemoteProtocolError: when one of them was seen before; nothing is kept then.
        """
        ids, room = outcomes.ids, self._room(outcomes.key_id)
        with self._lock:
            seen = not room.bundled.keys().isdisjoint(ids) or not room.kept.keys().isdisjoint(ids)
            entries = dict.fromkeys(ids, outcomes)
            if seen or len(entries) < len(ids):
                raise RemoteProtocolError("a call of this bundle came before; none of it is executed")
            room.bundled.update(entries)

    def drop(self, outcomes: Outcomes) -> None:
        """Keep nothing of a bundle."""
        with self._lock:
            self._room(outcomes.key_id).drop(outcomes)

    def close(self, outcomes: Outcomes) -> None:
        """Every call of a bundle is over: `result_kept` seconds begin; the oldest bundles make room."""
        outcomes.at = time.monotonic()
        outcomes.size = sum(map(len, outcomes.bodies.values()))
        with self._lock:
            self._room(outcomes.key_id).close(outcomes)

    def keep(self, call: Call, receiver: str, frames: Frames) -> None:
        """Keep the answer of a call.

        Args:
            call: that was answered.
            receiver: what the answer is addressed to under its signature.
            frames: of the answer.
        """
        body = frames[2]
        if isinstance(body, memoryview):
            if len(body) > MAX_COPIED:
                return
            frames = [*frames[:2], bytes(body), *frames[3:]]
        self._keep(call.id, call.caller.key_id, _Kept(receiver, time.monotonic(), frames))

    def keep_small(self, call_id: str, caller: Caller, receiver: str, frames: Frames) -> None:
        """As `keep`, for an answer that is nobody's memory and no future's; costs next to nothing."""
        at, key_id = time.monotonic(), caller.key_id
        if len(frames[2]) <= SMALL:
            self._room(key_id).small.append((call_id, receiver, at, frames))
        else:
            self._keep(call_id, key_id, _Kept(receiver, at, frames))

    def _keep(self, call_id: str, key_id: str, kept: _Kept) -> None:
        with self._lock:
            self._room(key_id).keep(call_id, kept)

    def register(self, call: Call, future: Future[Any], name: object = "") -> None:
        """Keep the outcome of a future that the member of that name gave.

        Raises:
            Refused: when `running_futures` futures are running.
        """
        call.id = call.id or f"direct-{next(_numbers)}"
        room = self._room(call.caller.key_id)
        with self._lock:
            if len(room.running) >= limits.current.running_futures:
                raise Refused(
                    f"{limits.current.running_futures} futures of this server are still running for this "
                    "key: wait for some, or cancel them"
                )
            room.running[call.id] = _Running(call.caller.agent)
        future.add_done_callback(lambda done: self._finish(room, call.id, done, name))

    def _finish(self, room: _Room, call_id: str, future: Future[Any], name: object) -> None:
        outcome = outcome_of(future, name)
        with self._lock:
            room.keep(call_id, _Kept("", time.monotonic(), None, outcome))
            waiting = room.running.pop(call_id).waiting
        for reply in waiting:
            reply(outcome)

    def ask(self, call_id: str, caller: Caller, running: bool, reply: Reply) -> None:
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
        elif kept is not None and time.monotonic() - kept.at < limits.current.result_kept:
            reply(self._read(kept))
        elif running:
            self._loop.call_later(ASK_AGAIN, lambda: reply(ps_message("pending", None)))
        else:
            raise Refused(
                f"no result is kept for call {call_id}: it never came here, ended more than "
                f"{limits.current.result_kept:g} s ago, or is another key's"
            )

    def _read(self, kept: _Kept) -> object:
        if isinstance(kept.outcome, _Encoded):
            return serializers.decode(*kept.outcome, trusted=True)
        if kept.frames is None:
            return kept.outcome
        envelope = self._protocol.open(kept.frames, Kind.REPLY, receiver=kept.receiver, judge_time=False)
        return self._protocol.content(envelope)

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


def _size(kept: _Kept) -> int:
    return 0 if kept.frames is None else len(kept.frames[2])


def outcome_of(future: Future[Any], name: object = "") -> object:
    """``return`` or ``raise`` message of a finished future that the member of that name gave."""
    try:
        error = future.exception()
        return ps_message("return", by_value(future.result(), name)) if error is None else raised(error)
    except (CancelledError, PzcError) as exc:
        return raised(exc)
