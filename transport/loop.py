"""The I/O loop: one thread per process that owns the sockets of all its agents.

::

    state      event                 next
    absent     first acquire()       running (thread and ZMQ context exist)
    running    `io_take_over` s      running, led by the thread that stood by; the old one ends with
               aside                 the function that held it up
    running    last release()        stopping (threads joined, context ended) → absent
    any        fork in the child     absent (the parent's loop stays the parent's)

Other threads reach a socket only by `call`, which queues a function and wakes the thread; on a loop
that has ended, or is the parent's, it does nothing. A handler that raises is logged and counted; it
never ends the loop. Functions of users that promise to be quick may run in the I/O thread too, between
`step_aside` and `step_back`: when one breaks its promise, another thread takes the sockets over.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from threading import current_thread, get_ident
from typing import Any, TypeVar

import zmq

from ..protocol.errors import AgentClosed, CallTimeout
from .bell import Bell
from .descriptors import require
from .executor import IO_STAND_BY
from .threads import Future
from .timers import Timer, Timers

_IO_TAKE_OVER = 0.006
"""Seconds aside after which another thread becomes the I/O thread."""


logger = logging.getLogger("pzc.loop")

T = TypeVar("T")

STOP_TIMEOUT = 5.0
"""Seconds to wait for the thread to finish its last work."""

_DESCRIPTORS = 32  # more than two contexts of libzmq take, ours and that which frees large messages
_REST = 0.05  # seconds behind a wait that failed, so that one that always fails costs no core


class Loop:
    """One thread, one ZMQ context, one poller. Made by `loops.acquire`, or with the context of another loop.

    Args:
        name: of the thread.
        context: that somebody else ends; None for one of its own.
    """

    def __init__(self, name: str = "pzc-io", context: zmq.Context[zmq.Socket[bytes]] | None = None) -> None:
        self._name = name
        self._owns = context is None
        self.context = context or _new_context()
        self.errors = 0
        self._poller = zmq.Poller()
        self._handlers: dict[Any, Callable[[], object]] = {}
        self._numbers: dict[Any, int] = {}
        self._looking: dict[int, zmq.Socket[bytes]] = {}
        self._descriptors = select.poll() if hasattr(select, "poll") else None
        self._quiet = False
        self._bell = Bell()
        self._calls: deque[Callable[[], object]] = deque()
        self._awake = False
        self._pid = os.getpid()
        self._ended = False
        # Reentrant: the garbage collector may run a finaliser that calls `call` inside `call`.
        self._pipe = threading.RLock()
        self._timers = Timers()
        self._running = True
        self._aside_since, self._aside_count = 0.0, 0
        self._lead = threading.Lock()
        self._leader = 0
        self._watched = False
        self._watch = threading.Event()
        self._stand_by: threading.Thread | None = None
        self._left: Callable[[], object] | None = None
        self.register(self._bell.fileno, self._drain_wake)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._bell.close()
            if self._owns:
                self.context.term()
            raise

    def in_thread(self) -> bool:
        """True when the caller is the I/O thread and may touch its sockets."""
        return self._leader == get_ident() and not self._aside_since

    def call(self, function: Callable[[], object]) -> None:
        """Run ``function`` soon in the I/O thread; safe from any thread, never blocks."""
        self._calls.append(function)
        if not self._awake:
            self._awake = True
            try:
                self._wake()
            except BaseException:  # of a signal's handler: nobody else would ring
                self._wake()
                raise

    def _wake(self) -> None:
        with self._pipe, contextlib.suppress(BlockingIOError):
            if not self._gone():
                self._bell.ring()

    def _gone(self) -> bool:
        return self._ended or self._pid != os.getpid()

    def run(self, function: Callable[[], T], timeout: float = STOP_TIMEOUT) -> T:
        """Run ``function`` in the I/O thread and return its result.

        Raises:
            CallTimeout: when the I/O thread did not come to it in ``timeout`` seconds.
            AgentClosed: when the loop has ended, or belongs to the parent of a forked process.
        """
        if self.in_thread():
            return function()
        if self._gone():
            raise AgentClosed("the I/O thread has ended")
        result: Future[T] = Future()

        def work() -> None:
            try:
                result.set_result(function())
            except BaseException as exc:
                result.set_exception(exc)

        self.call(work)
        try:
            return result.result(timeout)
        except TimeoutError:
            if not result.done():
                raise CallTimeout(f"the I/O thread did not answer within {timeout} s") from None
            raise
        finally:
            if result.done():
                del result  # it holds the error, whose traceback holds this frame

    def step_aside(self, left: Callable[[], object] | None = None) -> None:
        """What follows may be slow after all, and may wait for the I/O thread; elsewhere it does nothing.

        `in_thread` is False until `step_back`; after `io_take_over` seconds another thread is the I/O thread,
        and does ``left`` first.
        """
        if self._aside_since or self._leader != get_ident():  # already, or another thread leads by now
            return
        self._aside_count += 1
        self._left = left
        self._aside_since = time.monotonic()
        if not self._watched:
            self._call_the_watch()

    def step_back(self) -> bool:
        """End what `step_aside` began; in its thread.

        Returns:
            True when that is the I/O thread again. Else another one is, and what was called by the loop must
            return without touching anything of it.
        """
        with self._lead:
            if self._leader != get_ident():
                return False
            self._aside_since = 0.0
            return True

    def leads(self) -> bool:
        """True when the caller is the I/O thread, aside or not."""
        return self._leader == get_ident()

    def _call_the_watch(self) -> None:
        with self._lead:  # who stands by takes over only once it is noted, or what is noted would lead
            if self._leader != get_ident():
                return
            self._watch.set()
            if self._stand_by is None:
                stand_by = threading.Thread(target=self._watch_over, name=f"{self._name}-watch", daemon=True)
                with contextlib.suppress(RuntimeError):  # no thread is left: what is slow holds this one up
                    stand_by.start()
                    self._stand_by = stand_by
            self._watched = self._stand_by is not None

    def _watch_over(self) -> None:
        count, idle_since = -1, 0.0
        pause = take_over = _IO_TAKE_OVER
        while self._running or self._aside_since:
            time.sleep(pause)
            now, since = time.monotonic(), self._aside_since
            pause = since + take_over - now if 0.0 <= now - since < take_over else take_over
            if since and now - since >= take_over and self._take_over(since):
                self._wake()  # of the functions that are called, some may be left
                self._run()
                return
            if since or count != self._aside_count:
                count, idle_since = self._aside_count, now
            elif now - idle_since > IO_STAND_BY:
                self._watch.clear()
                self._watched = False
                while count == self._aside_count and self._running and not self._watch.wait(60.0):
                    pass

    def _take_over(self, since: float) -> bool:
        with self._lead:
            if self._aside_since != since:
                return False
            self._thread, self._leader = current_thread(), get_ident()
            self._aside_since = 0.0
            if self._left is not None:
                self._calls.append(self._left)
            self._watched = False
            self._watch.clear()
            self._stand_by = None
            return True

    def call_later(self, delay: float, function: Callable[[], object]) -> Timer:
        """Run ``function`` in the I/O thread ``delay`` seconds from now, never for an infinite one.

        It returns True when it has touched no ZeroMQ socket: they need not be looked at then.

        Raises:
            ConfigError: for a delay that is no number of seconds.
        """
        timer = Timer(delay, function)
        if self.in_thread():
            self._timers.push(timer)
        else:
            self.call(lambda: self._timers.push(timer))
        return timer

    def register(
        self, socket: zmq.Socket[bytes] | int, handler: Callable[[], object], looks: bool = False
    ) -> None:
        """Call ``handler`` whenever the socket, or file descriptor, is readable; I/O thread only.

        Args:
            socket: what is watched.
            handler: reads it.
            looks: the handler may be called for nothing, and returns True when it has seen that the socket is
                not readable any more, and touched no other one.
        """
        self._handlers[socket] = handler
        self._poller.register(socket, zmq.POLLIN)
        descriptor = self._numbers[socket] = socket if isinstance(socket, int) else socket.fileno()
        if self._descriptors is not None:
            self._descriptors.register(descriptor, select.POLLIN)
        if looks and not isinstance(socket, int):
            self._looking[descriptor] = socket

    def unregister(self, socket: zmq.Socket[bytes] | int) -> None:
        """Stop watching a socket or file descriptor; I/O thread only."""
        if self._handlers.pop(socket, None) is not None:
            self._poller.unregister(socket)
            descriptor = self._numbers.pop(socket)
            self._looking.pop(descriptor, None)
            if self._descriptors is not None:
                self._descriptors.unregister(descriptor)

    def _run(self) -> None:
        """Lead, until the loop ends or another thread leads."""
        mine = self._leader = get_ident()
        while self._running or self._calls:
            found = self._poll()
            quiet, self._quiet = self._quiet, False
            for ready, _ in found:
                handler = self._handlers.get(ready)
                if handler is not None:
                    try:
                        quiet = handler() is True and quiet
                    except BaseException as exc:
                        quiet = self._failed(exc)
                    if self._leader != mine:
                        return
            self._quiet = quiet
            if self._timers.first <= time.monotonic():
                self._run_due()
                if self._leader != mine:
                    return
        self._leader = 0  # another thread may get its number
        with self._pipe:
            self._ended = True
            self._bell.close()

    def disown(self) -> None:
        """The process was forked: in the child, no thread is this one's."""
        self._leader = 0

    def _poll(self) -> list[tuple[Any, int]]:
        """What is readable, once something is or a timer is due.

        The descriptor of a ZeroMQ socket tells only that something may have changed since the socket was
        looked at, or used. So it is relied on only while the loop is quiet: all were found unreadable, but
        for what is returned, and none was used since. It spares looking at each before and after the wait.
        """
        quiet, self._quiet = self._quiet, self._descriptors is not None
        try:
            wait = self._timers.wait_ms()
            if quiet and self._descriptors is not None:
                changed, handlers = self._descriptors.poll(wait), self._handlers
                for ready, _ in changed:
                    if ready not in handlers:
                        break
                else:
                    return changed
                looking = self._looking.get(changed[0][0])
                if looking is not None and len(changed) == 1:
                    return [(looking, zmq.POLLIN)]
                wait = 0
            return self._poller.poll(wait)
        except Exception:
            logger.exception("the I/O thread could not wait")
            self.errors += 1
            self._quiet = False
            self._forget_closed()
            time.sleep(_REST)
            return [(self._bell.fileno, zmq.POLLIN)]  # what was called may close what cannot be waited for

    def _forget_closed(self) -> None:
        """Watch no longer what was closed without `unregister`: with it, every wait would fail."""
        for socket in [each for each in self._handlers if not isinstance(each, int) and each.closed]:
            self.unregister(socket)

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell.hush()
        self._awake = False
        mine = self._leader
        for _ in range(len(self._calls)):
            self._guard(self._calls.popleft())
            if self._leader != mine:
                break
        if self._calls and not self._awake:
            self._awake = True
            self._wake()

    def _run_due(self) -> None:
        mine = self._leader
        for function in self._timers.due():
            quiet = self._guard(function) is True
            if self._leader != mine:
                return
            self._quiet = quiet and self._quiet

    def _guard(self, function: Callable[[], object]) -> object:
        try:
            return function()
        except BaseException as exc:
            return self._failed(exc)

    def _failed(self, error: BaseException) -> bool:  # a user's done-callback may raise anything
        self.errors += 1
        logger.error("a handler of the I/O thread failed", exc_info=error)
        return False

    def end(self) -> None:
        """End the thread, and the context if it is its own; not in the thread."""
        self._running = False
        self._watch.set()
        self.call(lambda: None)
        deadline = time.monotonic() + STOP_TIMEOUT
        while (leader := self._thread).is_alive() and time.monotonic() < deadline:
            leader.join(0.05)  # in short steps: another thread may take its place
        if self._stand_by is not None:
            self._stand_by.join(STOP_TIMEOUT)
        if self._owns:
            self._end_context()

    def _end_context(self) -> None:
        """End the context behind its sockets; each is closed by who uses it, as libzmq demands."""
        ending = threading.Thread(target=self.context.term, name="pzc-context", daemon=True)
        with contextlib.suppress(RuntimeError):  # since 3.12 none starts as Python ends, nor is one needed
            ending.start()
            ending.join(STOP_TIMEOUT)
        if ending.is_alive():
            logger.warning("a socket of the I/O thread was left open; its context ends when that is closed")


def _new_context() -> zmq.Context[zmq.Socket[bytes]]:
    require(_DESCRIPTORS)
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, min(16_384, context.get(zmq.SOCKET_LIMIT)))  # 16_383 on Windows
    zmq.Frame(b"", copy=False)  # what frees large messages is started now, while it can have descriptors
    return context
