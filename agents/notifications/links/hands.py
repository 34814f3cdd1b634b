"""Hands: the thread that receives for a link and hands on what came; `.leading` tells who does so for it.

::

    state      event                                             next
    working    `TAKE_OVER` seconds in one hand-over, at a look   working, in another thread; the old one ends
                                                                 with the callback that held it up
    working    the link is over                                  ended
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic

from .leading import Leading

logger = logging.getLogger("pzc.links")

TAKE_OVER = 0.1
"""Seconds in one hand-over after which another thread goes on receiving."""

Errand = Callable[[], object]


class Hands:
    """One thread at a time.

    Args:
        name: of the thread.
        receive: waits for what comes next, and says what to do with it; called until the link is over.
        over: set when it is.
        finish: called once, by the last thread, at the end.
        leading: who receives in its place.
    """

    def __init__(
        self,
        name: str,
        receive: Callable[[], deque[Errand]],
        over: threading.Event,
        finish: Errand,
        leading: Leading,
    ) -> None:
        self._name = name
        self._receive = receive
        self._over = over
        self._finish = finish
        self._errands: deque[Errand] = deque()
        self._generation = 0
        self._since: float | None = None
        self._thread: threading.Thread | None = None
        self._leading = leading
        self.puts_off, self.give_back = leading.puts_off, leading.give_back

    def start(self) -> None:
        """Begin, or go on in another thread."""
        run = partial(self._run, self._generation)
        self._thread = threading.Thread(target=run, name=self._name, daemon=True)
        self._thread.start()

    def in_thread(self) -> bool:
        """True when the caller is the thread that receives."""
        return self._thread is threading.current_thread()

    def lead(self, comes: Callable[[], bool]) -> None:
        """Receive in the calling thread, if it may, as long as ``comes`` waits for more and returns True."""

        def receive() -> bool:
            if not comes():
                return False
            self._errands = self._receive()
            if self._errands:
                self._leading.give_back()
            return True

        self._leading.lead(receive)

    def look(self, now: float) -> None:
        """Go on in another thread when this one is held up by a callback; one caller at a time."""
        since = self._since
        if since is not None and now - since > TAKE_OVER:
            before, self._since = self._thread, None
            self._generation += 1
            try:
                self.start()
            except RuntimeError:  # no thread is left: this one goes on when it can
                self._thread, self._since = before, since
                self._generation -= 1

    def join(self, timeout: float) -> bool:
        """Wait until it has ended; False after ``timeout`` seconds, and at once in its own thread."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return thread is None
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self, generation: int) -> None:
        if not self._work(generation):
            return
        while not self._over.is_set():
            self._leading.stand_by()
            self._errands = self._errands or self._receive()
            if not self._work(generation):
                return
        self._finish()

    def _work(self, generation: int) -> bool:
        """Do what is to be done; False when another thread goes on."""
        errands = self._errands
        while errands:
            errand = errands.popleft()
            self._since = monotonic()
            try:
                errand()
            except Exception:
                logger.exception("%s could not hand on a notification", self._name)
            del errand  # what it holds may be large
            if generation != self._generation:
                return False
        self._since = None
        return True
