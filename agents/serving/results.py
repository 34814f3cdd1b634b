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
comes back as another one. Bounds: `running_futures` futures, `results_kept` answers, `result_bytes` of them;
beyond, new futures are refused and the oldest answers are forgotten.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...protocol import limits, serializers
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
    key_id: str
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
    key_id: str
    receiver: str
    at: float
    frames: Frames | None
    outcome: object = None


class _Encoded(NamedTuple):
    serializer: str
    body: bytes


class Results:
    """Results by call id; safe from any thread.

    Args:
        loop: for the timeouts.
        protocol: reads kept answers.
    """

    def __init__(self, loop: Loop, protocol: Protocol) -> None:
        self._loop = loop
        self._protocol = protocol
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0
        self._small: deque[tuple[str, Caller, str, float, Frames]] = deque(maxlen=limits.current.results_kept)
        self._bundled: dict[str, Outcomes] = {}
        self._over: deque[Outcomes] = deque()
        self._over_calls = self._over_bytes = 0

    def __len__(self) -> int:
        return len(self._running) + len(self._kept) + len(self._small) + len(self._bundled)

    def open(self, outcomes: Outcomes) -> None:
        """Keep the outcomes of a bundle's calls from now on.

        Raises:
            RemoteProtocolError: when one of them was seen before; nothing is kept then.
        """
        ids = outcomes.ids
        with self._lock:
            seen = not self._bundled.keys().isdisjoint(ids) or not self._kept.keys().isdisjoint(ids)
            entries = dict.fromkeys(ids, outcomes)
            if seen or len(entries) < len(ids):
                raise RemoteProtocolError("a call of this bundle came before; none of it is executed")
            self._bundled.update(entries)

    def drop(self, outcomes: Outcomes) -> None:
        """Keep nothing of a bundle."""
        with self._lock:
            for call_id in outcomes.ids:
                del self._bundled[call_id]

    def close(self, outcomes: Outcomes) -> None:
        """Every call of a bundle is over: `result_kept` seconds begin; the oldest bundles make room."""
        outcomes.at = time.monotonic()
        outcomes.size = sum(map(len, outcomes.bodies.values()))
        forgotten: list[Outcomes] = []
        with self._lock:
            self._over.append(outcomes)
            self._over_calls += len(outcomes.ids)
            self._over_bytes += outcomes.size
            while (
                self._over_calls > limits.current.results_kept
                or self._over_bytes > limits.current.result_bytes
            ):
                oldest = self._over.popleft()
                self._over_calls -= len(oldest.ids)
                self._over_bytes -= oldest.size
                forgotten.append(oldest)
        for oldest in forgotten:
            self.drop(oldest)

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
        self._keep(call.id, _Kept(_key_id(call.caller), receiver, time.monotonic(), frames))

    def keep_small(self, call_id: str, caller: Caller, receiver: str, frames: Frames) -> None:
        """As `keep`, for an answer that is nobody's memory and no future's; costs next to nothing."""
        kept = (call_id, caller, receiver, time.monotonic(), frames)
        if len(frames[2]) <= SMALL:
            self._small.append(kept)
        else:
            self._keep(call_id, _Kept(_key_id(caller), receiver, kept[3], frames))

    def _find(self, call_id: str) -> _Kept | None:
        kept = self._kept.get(call_id)
        if kept is not None:
            return kept
        for known, caller, receiver, at, frames in self._small.copy():
            if known == call_id:
                return _Kept(_key_id(caller), receiver, at, frames)
        bundled = self._bundled.get(call_id)
        if bundled is None or (body := bundled.bodies.get(call_id)) is None:
            return None
        outcome = _Encoded(bundled.serializer, body)
        return _Kept(bundled.key_id, "", bundled.at or time.monotonic(), None, outcome)

    def _keep(self, call_id: str, kept: _Kept) -> None:
        with self._lock:
            known = self._kept.get(call_id)
            outcome_known = call_id in self._running or (known is not None and known.frames is None)
            if kept.frames is not None and outcome_known:
                return  # this answer only tells that there is a future
            if known is not None:
                self._bytes -= _size(self._kept.pop(call_id))
            self._kept[call_id] = kept
            self._bytes += _size(kept)
            oldest = kept.at - limits.current.result_kept
            while self._kept:
                first = next(iter(self._kept.values()))
                if (
                    first.at > oldest
                    and len(self._kept) <= limits.current.results_kept
                    and self._bytes <= limits.current.result_bytes
                ):
                    return
                self._bytes -= _size(self._kept.popitem(last=False)[1])

    def register(self, call: Call, future: Future[Any], name: object = "") -> None:
        """Keep the outcome of a future that the member of that name gave.

        Raises:
            Refused: when `running_futures` futures are running.
        """
        call.id = call.id or f"direct-{next(_numbers)}"
        with self._lock:
            if len(self._running) >= limits.current.running_futures:
                raise Refused(f"{limits.current.running_futures} futures of this server are still running")
            self._running[call.id] = _Running(_key_id(call.caller), call.caller.agent)
        future.add_done_callback(lambda done: self._finish(call.id, done, name))

    def _finish(self, call_id: str, future: Future[Any], name: object) -> None:
        outcome, running = outcome_of(future, name), self._running[call_id]
        self._keep(call_id, _Kept(running.key_id, "", time.monotonic(), None, outcome))
        with self._lock:
            del self._running[call_id]
            waiting, running.waiting = running.waiting, []
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
        key_id = _key_id(caller)
        with self._lock:
            entry = self._running.get(call_id)
            kept = self._find(call_id)
            if entry is not None and entry.key_id == key_id:
                entry.waiting.append(reply)
        if entry is not None and entry.key_id == key_id:
            self._loop.call_later(limits.current.result_wait, lambda: self._still_running(call_id, reply))
        elif (
            kept is not None
            and kept.key_id == key_id
            and time.monotonic() - kept.at < limits.current.result_kept
        ):
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

    def _still_running(self, call_id: str, reply: Reply) -> None:
        with self._lock:
            entry = self._running.get(call_id)
            if entry is None or reply not in entry.waiting:
                return
            entry.waiting.remove(reply)
        reply(ps_message("pending", None))

    def forget_agent(self, agent: str) -> None:
        """Drop the held requests of a dead agent; what it called for is kept for its successor."""
        with self._lock:
            for entry in self._running.values():
                if entry.agent == agent:
                    entry.waiting.clear()


def _key_id(caller: Caller) -> str:
    return "" if caller.key is None else caller.key.key_id


def _size(kept: _Kept) -> int:
    return 0 if kept.frames is None else len(kept.frames[2])


def outcome_of(future: Future[Any], name: object = "") -> object:
    """``return`` or ``raise`` message of a finished future that the member of that name gave."""
    try:
        error = future.exception()
        return ps_message("return", by_value(future.result(), name)) if error is None else raised(error)
    except (CancelledError, PzcError) as exc:
        return raised(exc)
