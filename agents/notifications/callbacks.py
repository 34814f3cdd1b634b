"""Callbacks: where those of subscriptions are called, whichever way their notifications came.

One turn of an executor for all subscriptions that are to be called there::

    state     event                                                next
    made      `start_here`: those that are quick,                  running, in the calling thread
              when the executor is idle
    made      `start`, and all others                              waiting: submitted
    waiting   the executor's turn                                  running
    running   each was called: until it is slow for once,          over
              `callback_turn` has passed or nothing is pending; nothing is left
    running   something is left                                    waiting: what else the executor has
                                                                   to do comes first
    running   a callback stalls (`executor.py`)                    another thread runs what is left as well
    made      there is no thread for it                            made, again `NO_THREAD` seconds later
    any       the executor is full, or closed                      over: the next arrival starts anew

For one subscription one thing is called at a time: its callback by the turn that has it, and what it has to
tell besides (`on_gap`, `on_lost`) by whoever calls for it at that moment.

Those that are ``async def`` are awaited on an event loop of the agent (`Awaiting`): for one subscription in
order and one at a time, for several side by side. A notification is done with when its callback has returned,
or its coroutine has ended.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ...delivery.policies import Inbox
from ...protocol.errors import AgentClosed, PeerLost
from ...protocol.lazily import Lazily
from ...transport import loops
from ...transport.executor import CALLBACK_TURN, NO_THREAD, QUICK_CALL, QUICK_PROOFS, Divisible, Executor
from ..notification import Callback, Notification
from ..server.coroutines import Coroutines
from .links.arrivals import Arrival

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = Lazily("asyncio")

logger = logging.getLogger("pzc.subscription")

WAITING_GAPS = 10_000
"""Calls of one subscription's `on_gap` that wait for its callback; further ones are logged instead."""


COMPLAINTS = 60.0
"""Seconds between two failures of one subscription's callbacks that are logged."""


class Called(ABC):
    """The side of a `Subscription` that calls back, which makes ``_inbox`` and ``_mutex``.

    Attributes:
        executor: where that happens.
        callback_errors: calls that raised.
        proofs: quick calls in succession, as far as they count.
    """

    topic: str
    executor: Runs
    callback_errors: int
    proofs: int
    _callback: Callback | None
    _inbox: Inbox[Arrival]
    _mutex: threading.RLock
    _running: threading.RLock | None
    """Held while anything is called; None until then."""
    _errands: deque[Callable[[], object]] | None
    """What else is to be called, in order; None until then."""
    _told: deque[tuple[Callable[[], object], bool]] | None
    """What else the executor is to have called, in order, and whether it is needed; None until then."""
    on_gap: Callable[[Any], object] | None
    _pumping: bool
    """Somebody calls, or will, for what is pending."""
    _closed: bool
    _silent_until: float
    """Monotonic seconds before which no failure is logged."""

    @abstractmethod
    def _opened(self, entry: Arrival) -> Notification | None:
        """The notification, decoded now if nobody did; None, and counted as a gap, when it cannot be."""

    @property
    def is_quick(self) -> bool:
        """True when the callback has been quick of late."""
        return self.proofs >= QUICK_PROOFS

    def rest(self) -> None:
        """Nobody will call for what is pending: the next arrival asks for it anew."""
        self._pumping = False

    def _make_running(self) -> threading.RLock:
        with self._mutex:
            running = self._running = self._running or threading.RLock()
            return running

    def call_pending(self, until: float) -> bool:
        """Call for the next one; while the callback is quick, for all that are pending.

        Args:
            until: monotonic seconds after which no other call begins.

        Returns:
            Whether some are left; when not, the next arrival asks for a turn anew.
        """
        if type(self.executor) is Awaiting:
            self.executor.begin(self._await_pending())
            return False
        inbox, mutex, callback, clock = self._inbox, self._mutex, self._callback, time.monotonic
        running = self._running or self._make_running()
        if not running.acquire(blocking=False):  # something else of it is called
            self._do(partial(start, (self,)))
            return False
        try:
            while True:
                with mutex:
                    if self._closed or not inbox.items:
                        self._pumping = False
                        return False
                    entry = inbox.take()
                notification = entry.notification or self._opened(entry)
                now = started = clock()
                if notification is not None and callback is not None:
                    try:
                        callback(notification)
                    except BaseException as error:  # even SystemExit may end one callback only
                        self._failed(error)
                    now = clock()
                    if now - started >= QUICK_CALL:
                        self.proofs = 0
                    elif self.proofs < QUICK_PROOFS:
                        self.proofs += 1
                notification = None  # else it would be kept beyond its end
                entry.book.consumed(entry)
                if self.proofs < QUICK_PROOFS or now >= until:
                    with mutex:
                        self._pumping = bool(inbox.items)
                        return self._pumping
        finally:
            running.release()
            if self._errands:
                self._do_errands()

    async def _await_pending(self) -> None:
        """As `call_pending`, for all that are pending, on the event loop."""
        callback = cast("Callable[[Notification], Awaitable[object]]", self._callback)
        with self._running or self._make_running():
            while True:
                while self._errands:
                    self._errands.popleft()()
                with self._mutex:
                    if self._closed or not self._inbox.items:
                        self._pumping = False
                        return
                    entry = self._inbox.take()
                notification = self._opened(entry)
                try:
                    if notification is not None:
                        await callback(notification)
                except BaseException as error:  # as above
                    task = asyncio.current_task()
                    if task is not None and task.cancelling():  # the agent is stopped
                        raise
                    self._failed(error)
                finally:
                    notification = None
                    entry.consumed()
                await asyncio.sleep(0)  # others come in between

    def _tell(self, function: Callable[[Any], object], argument: object, *, last: bool = False) -> None:
        """Call something else of the user's, in its turn; after the end only what is ``last``."""
        with self._mutex:  # threads of the executor may overtake one another
            if self._told is None:
                self._told = deque()
            if self._submit_told():
                self._told.append(
                    (partial(self._call, function, argument, last), function is not self.on_gap)
                )

    def _submit_told(self) -> bool:
        try:
            return self.executor.submit(self._do_told)
        except AgentClosed:
            return False
        except (RuntimeError, OSError):  # no thread is left, or no descriptor for an event loop
            loops.later(NO_THREAD, self._submit_told)
            return True

    def _call(self, function: Callable[[Any], object], argument: object, last: bool) -> None:
        try:
            if last or not self._closed:
                function(argument)
        except BaseException as error:  # even SystemExit may end one callback only
            self._failed(error)

    def _do(self, errand: Callable[[], object]) -> None:
        """Call it now, or let whoever calls for this subscription do so next."""
        with self._mutex:
            self._wait_for_turn(errand, True)
        self._do_errands()

    def _do_told(self) -> None:
        """As `_do`, with the oldest that was told."""
        with self._mutex:
            if self._told:
                self._wait_for_turn(*self._told.popleft())
        self._do_errands()

    def _wait_for_turn(self, errand: Callable[[], object], needed: bool) -> None:
        """It is called next; what is not ``needed`` only while not too much waits. With the mutex."""
        if self._errands is None:
            self._errands = deque()
        if needed or len(self._errands) < WAITING_GAPS:
            self._errands.append(errand)
        else:
            logger.warning(
                "on_gap of topic %s is not called for every gap: it waits for a callback", self.topic
            )

    def _do_errands(self) -> None:
        if self._pumping and type(self.executor) is Awaiting:
            return  # `_await_pending` does: its lock keeps nothing out of its own thread
        running, errands = self._running or self._make_running(), self._errands
        while errands and running.acquire(blocking=False):
            try:
                while errands:
                    errands.popleft()()
            finally:
                running.release()

    def _failed(self, error: BaseException) -> None:
        self.callback_errors += 1
        if (now := time.monotonic()) >= self._silent_until:
            self._silent_until = now + COMPLAINTS
            logger.error(
                "callback of topic %s failed, %d times by now",
                self.topic,
                self.callback_errors,
                exc_info=error,
            )
        # Whoever keeps the log record would keep the content, and with it the publisher's memory.
        traceback.clear_frames(error.__traceback__)


def start(called: Iterable[Called | None]) -> None:
    """Call for these as soon as it is the turn of their executors; None is nobody."""
    found: dict[Runs, deque[Called]] = {}
    for each in called:
        if each is not None:
            found.setdefault(each.executor, deque()).append(each)
    for executor, waiting in found.items():
        Turn(waiting, executor).submit()


def start_here(called: Iterable[Called]) -> None:
    """As `start`, but call for those that are quick in this thread when nothing waits before them."""
    found: dict[Runs, tuple[deque[Called], deque[Called]]] = {}
    for each in called:
        waiting = found.get(each.executor)
        if waiting is None:
            waiting = found[each.executor] = deque(), deque()
        waiting[each.proofs < QUICK_PROOFS].append(each)
    while found:
        executor, (quick, others) = found.popitem()
        # Only of the last one: what stalls here keeps no other executor waiting.
        count = 0 if found else len(quick)
        quick.extend(others)
        turn = Turn(quick, executor)
        if count:
            executor.run_here(partial(turn.call, count), turn)
        if turn.left:
            turn.submit()


class Turn(Divisible, eq=False):
    """Calls for several, each by one thread at a time.

    Args:
        left: for whom.
        executor: where.
    """

    executor: Runs

    def submit(self) -> None:
        """Call for them as soon as it is the executor's turn; without room, the next arrival starts anew."""
        try:
            if self.executor.submit(self):
                return
        except AgentClosed:
            pass
        except (RuntimeError, OSError):
            loops.later(NO_THREAD, self.submit)
            return
        with suppress(IndexError):  # there are none
            while True:
                self.left.popleft().rest()

    def call(self, count: int) -> None:
        """Call for the first ones, each once; who is called for no more goes out."""
        left, until = self.left, time.monotonic() + CALLBACK_TURN
        for _ in range(count):
            try:
                called = left.popleft()
            except IndexError:  # another thread has taken them over
                return
            if called.call_pending(until):
                left.append(called)
            if time.monotonic() >= until:
                return

    def __call__(self) -> None:
        """Call for each until none is left, with the executor's other functions in between."""
        while True:
            self.call(len(self.left))
            try:
                if not self.left or self.executor.submit(self):
                    return
            except AgentClosed:
                return


# --- coroutines ----------------------------------------------------------------------------------------


class Awaiting:
    """Where the ``async def`` callbacks of one agent run; safe from any thread.

    Args:
        name: of the agent, for the thread's name.
    """

    def __init__(self, name: str) -> None:
        self._coroutines = Coroutines(name)
        self._thread = 0

    def begin(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Await a coroutine beside others.

        Raises:
            AgentClosed: after `close`.
        """
        try:
            self._coroutines.begin(coroutine)
        except PeerLost as exc:
            raise AgentClosed("the event loop of the callbacks is closed") from exc

    def submit(self, function: Callable[[], object]) -> bool:
        """Call a function in the event loop; raises as `begin`."""
        self.begin(self._call(function))
        return True

    async def _call(self, function: Callable[[], object]) -> None:
        self._thread = threading.get_ident()
        function()

    def run_here(self, function: Callable[[], object], divisible: Divisible | None = None) -> bool:
        """Never: coroutines wait."""
        del function, divisible
        return False

    def in_thread(self) -> bool:
        """True in the thread of the event loop."""
        return threading.get_ident() == self._thread

    def close(self) -> None:
        """Cancel what runs; nothing more begins."""
        self._coroutines.close()


Runs = Executor | Awaiting
"""Where callbacks are called."""
