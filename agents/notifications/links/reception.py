"""Reception: what the receiver's thread does for one link: takes what came, and hands it on.

::

    state     event                             next
    idle      something came                    working
    working   nothing is left                   idle
    working   `callback_turn` has passed        idle; called again, behind other links
    working   held up for `io_take_over`        working, in the thread that is the receiver's by then; the one
                                                before ends with what held it up

While a thread waits for the rest of a message, no other takes anything of the same link.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic

from ....protocol import limits
from ....transport.loop import Loop

logger = logging.getLogger("pzc.links")

Errand = Callable[[], object]


class Reception:
    """One link's.

    Args:
        loop: the receiver's.
        receive: takes what came, and adds what is to be done then; False when nothing was there.
    """

    def __init__(self, loop: Loop, receive: Callable[[], bool]) -> None:
        self._loop = loop
        self._receive = receive
        self._errands: deque[Errand] = deque()
        self._receiving = threading.Lock()
        self._missed = False

    def add(self, errands: Iterable[Errand]) -> None:
        """To be done, in order, before anything more is taken; while `receive` runs."""
        self._errands.extend(errands)

    def look(self) -> None:
        """Something may have come; any thread."""
        self._loop.call(self.on_ready)

    def on_ready(self) -> bool:
        """Something may have come; the receiver's thread. True: no other socket of the loop was touched."""
        self._loop.step_aside(self.on_ready)
        try:
            self._work()
        finally:
            self._loop.step_back()
        return True

    def _work(self) -> None:
        until, found = monotonic() + limits.current.callback_turn, False
        while True:
            while self._errands:
                self._do(self._errands.popleft())
                if not self._loop.leads():
                    return
            if found and monotonic() >= until:
                self.look()
                return
            if not self._receiving.acquire(blocking=False):
                self._missed = True
                return
            try:
                self._missed = False
                found = self._receive()
            finally:
                self._receiving.release()
            if self._missed or not self._loop.leads():
                self.look()
                return
            if not found:
                return

    def _do(self, errand: Errand) -> None:
        try:
            errand()
        except Exception:
            logger.exception("a notification could not be handed on")
