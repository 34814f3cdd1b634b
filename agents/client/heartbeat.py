"""Heartbeat: tells a server that whoever holds something there is alive, from the I/O thread.

A hold is a lock, an open stream or an unanswered future. Per endpoint::

    state      event                                        next
    idle       hold                                         due, at once or ``after`` seconds later
    due        nothing held any more                        idle: nothing is sent, and it is forgotten
    due        its time has come                            asking: one {"pzc": "alive"} is outstanding
    asking     answered (a server takes 0.25 s for it)      due, at once
    asking     answered by another agent than held at       due; the holds of the former are lost
    asking     no answer                                    due 0.25 s later; holds whose patience is
                                                            over are lost
    any        close()                                      nothing is sent any more

A busy process is not dead: the calls of its user run in other threads.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from ...protocol.errors import AgentClosed
from ...transport.loop import Loop, Timer
from ...transport.peer import Peer
from ..reply import Reply

_ALIVE_TIMEOUT = 2.0
"""Seconds that whoever holds something waits for the answer to a sign of life; less than `silence`."""


logger = logging.getLogger("pzc.heartbeat")

PACE = 0.25
"""Seconds between two signs of life, and before a failed one is repeated."""

ALIVE_TIMEOUT_LEAST = 0.5
"""Least seconds to wait for an answer, however little patience a hold has; it takes 0.25 by itself."""

Lost = Callable[[str], None]


class _Hold(NamedTuple):
    """One thing held; ``due`` in monotonic seconds, ``patience`` in seconds."""

    due: float
    agent_id: str
    lost: Lost | None
    patience: float


@dataclass(slots=True)
class _Watch:
    """One endpoint. ``holds`` and ``armed`` change in any thread, the rest in the I/O thread."""

    peer: Peer
    holds: dict[int, _Hold] = field(default_factory=dict)
    dues: list[Callable[[], float]] = field(default_factory=list)
    armed: bool = False
    asking: bool = False
    not_before: float = 0.0
    heard: float | None = None
    timer: Timer | None = None


class Heartbeat:
    """Signs of life of one agent to the servers where it holds something.

    Args:
        loop: of the agent.
        exchange_later: sends content to a peer: peer, content, timeout in seconds.
    """

    def __init__(self, loop: Loop, exchange_later: Callable[[Peer, object, float], Future[Reply]]) -> None:
        self._loop = loop
        self._exchange_later = exchange_later
        self._watches: dict[str, _Watch] = {}
        self._numbers = itertools.count()
        self._closed = False

    def hold(
        self, peer: Peer, *, after: float = 0.0, lost: Lost | None = None, patience: float = 0.0
    ) -> Callable[[], object]:
        """Something is held at a peer from now on; any thread, never blocks.

        Args:
            peer: where; nothing is sent to one that is not native, and holds nothing for others.
            after: seconds that it must last before the first sign of life; for what is usually over
                sooner.
            lost: called once with the reason, in the I/O thread, when the peer was replaced by another
                agent or has been silent for longer than ``patience``; the hold is over then.
            patience: seconds of silence, at least `ALIVE_TIMEOUT_LEAST`.

        Returns:
            What ends the hold: any thread, finalizers included, and more than once.
        """
        if not peer.native:
            return _nothing
        watch = self._of(peer)
        number = next(self._numbers)
        watch.holds[number] = _Hold(time.monotonic() + after, peer.agent_id, lost, patience)
        if not watch.armed or after == 0.0:
            watch.armed = True
            self._loop.call(partial(self._look, watch))
        return partial(watch.holds.pop, number, None)

    def watch(self, peer: Peer, due: Callable[[], float]) -> None:
        """As `hold`, for what comes and goes quickly: ``due`` tells when the oldest is due; any thread.

        Args:
            peer: where.
            due: the time in monotonic seconds; infinite when nothing is held, and it is asked no more.
        """
        if peer.native:
            watch = self._of(peer)
            watch.dues.append(due)
            if not watch.armed:
                watch.armed = True
                self._loop.call(partial(self._look, watch))

    def _of(self, peer: Peer) -> _Watch:
        watch = self._watches.get(peer.endpoint)
        if watch is None:
            watch = self._watches.setdefault(peer.endpoint, _Watch(peer))
        watch.peer = peer
        return watch

    def _look(self, watch: _Watch) -> None:
        if watch.asking or self._closed:
            return
        holds = watch.holds.copy()
        first = self._first_due(watch)
        if not holds and first == math.inf:
            watch.armed, watch.heard = False, None
            if self._watches.get(watch.peer.endpoint) is watch:
                del self._watches[watch.peer.endpoint]
            if watch.holds or watch.dues:  # made by another thread that still saw it armed
                watch.armed = True
                self._loop.call(partial(self._look, watch))
            return
        now = time.monotonic()
        due = max(watch.not_before, min([first, *(hold.due for hold in holds.values())]))
        if due <= now:
            self._ask(watch, now)
            return
        if watch.timer is not None:
            watch.timer.cancel()
        watch.timer = self._loop.call_later(due - now, partial(self._look, watch))

    def _first_due(self, watch: _Watch) -> float:
        first = math.inf
        for due in watch.dues.copy():
            at = due()
            if at == math.inf:
                watch.dues.remove(due)
            first = min(first, at)
        return first

    def _ask(self, watch: _Watch, now: float) -> None:
        watch.asking = True
        watch.not_before = now + PACE
        if watch.heard is None:
            watch.heard = now
        try:
            answer = self._exchange_later(watch.peer, {"pzc": "alive"}, _timeout(watch))
        except Exception as exc:
            self._on_silence(watch, exc)
            return
        answer.add_done_callback(lambda done: self._loop.call(partial(self._on_answer, watch, done)))

    def _on_answer(self, watch: _Watch, answer: Future[Reply]) -> None:
        try:
            reply = answer.result(0)
        except Exception as exc:
            self._on_silence(watch, exc)
            return
        watch.asking = False
        watch.heard = time.monotonic()
        if reply.sender != watch.peer.agent_id:
            watch.peer = replace(watch.peer, agent_id=reply.sender, key_id=reply.key_id)
        self._lose(watch, f"{watch.peer.endpoint} was restarted", lambda hold: hold.agent_id != reply.sender)
        self._look(watch)

    def _on_silence(self, watch: _Watch, error: Exception) -> None:
        watch.asking = False
        now = time.monotonic()
        silent = now - (watch.heard or now)
        watch.not_before = now + PACE
        closed = isinstance(error, AgentClosed)
        logger.debug("no sign of life from %s: %s", watch.peer.endpoint, error)
        self._lose(
            watch,
            f"{watch.peer.endpoint} has been silent for {silent:.1f} s: {error}",
            lambda hold: closed or silent >= hold.patience,
        )
        if not closed:
            self._look(watch)

    def _lose(self, watch: _Watch, reason: str, is_lost: Callable[[_Hold], bool]) -> None:
        for number, hold in watch.holds.copy().items():
            if hold.lost is not None and is_lost(hold) and watch.holds.pop(number, None) is not None:
                hold.lost(reason)

    def close(self) -> None:
        """Send nothing any more."""
        self._closed = True
        for watch in list(self._watches.values()):
            watch.holds.clear()


def _timeout(watch: _Watch) -> float:
    longest = _ALIVE_TIMEOUT
    shortest = min((hold.patience for hold in watch.holds.copy().values() if hold.lost), default=longest)
    return min(longest, max(ALIVE_TIMEOUT_LEAST, shortest))


def _nothing() -> None:
    return None
