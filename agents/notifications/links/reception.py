"""Reception: what the receiver's thread does for one link: takes what came, and hands it on.

::

    state     event                             next
    idle      something came                    working
    working   nothing is left                   idle
    working   `callback_turn` has passed        idle; called again, behind other links
    working   held up for `io_take_over`        working, in the thread that is the receiver's by then; the one
                                                before ends with what held it up

While a thread takes a message, waits for its rest, or puts what came into inboxes, no other does so for
the same link: each subscription gets its own in order. What may be slow, code of users above all, runs
behind `step_aside`; a sign of life needs no such thing, so nobody is woken to stand by.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic

from ....transport.executor import CALLBACK_TURN
from ....transport.loop import Loop

logger = logging.getLogger("pzc.links")

Call = Callable[[], object]
"""Calls functions of a user, and may take long."""

Errand = Callable[[], Call]
"""Puts what came into inboxes, quickly; returns what is to be called then."""


class Reception:
    """One link's.

    Args:
        loop: the receiver's.
        receive: takes what came, adds errands and sets `call`; False when nothing more is there.

    Attributes:
        call: to be called before any errand, once others may take what comes.
        errands: to be done, in order, before anything more is taken.
        step_aside: tells, while `receive` runs, that what follows may be slow.
    """

    def __init__(self, loop: Loop, receive: Callable[[], bool]) -> None:
        self._loop = loop
        self._receive = receive
        self.call: Call | None = None
        self.errands: deque[Errand] = deque()
        self._receiving = threading.Lock()  # who takes, and puts into inboxes
        self._missed = False
        self.step_aside: Callable[[], None] = partial(loop.step_aside, self.on_ready)

    def look(self) -> None:
        """Something may have come; any thread."""
        self._loop.call(self.on_ready)

    def on_ready(self) -> bool:
        """Something may have come; the receiver's thread. True: no other socket of the loop was touched."""
        until = monotonic() + CALLBACK_TURN
        try:
            while self._work():
                if monotonic() >= until:
                    self.look()
                    break
        finally:
            self._loop.step_back()
        return True

    def _work(self) -> bool:
        """Take what came, or do the next errand; False when nothing is left for this thread.

        A thread that has the right to do so, and was held up in the middle, finds out that another was here.
        """
        self._missed = False
        if not self._receiving.acquire(blocking=False):
            self._missed = True
            if not self._receiving.acquire(blocking=False):
                return False
        more, call = False, None
        try:
            more = bool(self.errands) or self._receive()
            call, self.call = self.call, None
            if self.errands:
                if call is None:
                    self.step_aside()
                    call = self.errands.popleft()()
                more = more or bool(self.errands)
        except Exception:
            logger.exception("a notification could not be handed on")
            more = bool(self.errands)
        finally:
            self._receiving.release()
        if self._missed:
            self.look()  # whoever is the receiver by now goes on, while the call is made here
        try:
            if call is not None:
                call()
        except Exception:
            logger.exception("callbacks could not be begun")
        return more and self._loop.leads()
