"""Stop: the method that `on_cancel` names, which is called once when its call was cancelled.

::

    the method is    called
    urgent           at once, in a thread of its own, beside the call
    not urgent       in the turn of the call, when that has ended
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

from ...protocol.errors import LocalLimit
from ...transport.threads import begin
from ..current import reset_current, set_current
from .call import Call
from .coroutines import Coroutines
from .lane import not_started

logger = logging.getLogger("pzc.dispatcher")


class Stop:
    """Watches a call while it runs, as a context manager, and stops it at once if the method is urgent.

    Args:
        call: the call to stop.
        method: what stops it.
        urgent: whether it may run beside the call.
        coroutines: runs an ``async def`` method.
    """

    def __init__(self, call: Call, method: Callable[[], Any], urgent: bool, coroutines: Coroutines) -> None:
        self._call = call
        self._method = method
        self._urgent = urgent
        self._coroutines = coroutines
        self._lock = threading.Lock()
        self._done = False

    def of(self, call: Call) -> Stop:
        """The same for another call, which goes on with what the first one began."""
        return Stop(call, self._method, self._urgent, self._coroutines)

    def __enter__(self) -> None:
        self._call.stop = self
        if self._urgent:
            self._call.watch(self._begin)
        if self._call.cancelled:  # a stop that came first must not be undone by a start
            raise not_started()

    def __exit__(self, *exc: object) -> None:
        self._call.unwatch(self._begin)

    def _begin(self) -> None:
        try:
            begin(threading.Thread(target=self.run, name="pzc-stop", daemon=True))
        except LocalLimit as exc:
            logger.warning("what stops %s runs when that has ended: %s", self._call.label, exc)

    def run(self) -> None:
        """Call the method unless it was called; it has ended when this returns."""
        with self._lock:
            if self._done:
                return
            self._done = True
            token = set_current(self._call.following())
            try:
                result = self._method()
                if inspect.iscoroutine(result):
                    self._coroutines.run(result)
            except BaseException as exc:
                logger.warning("what is to follow a cancelled %s raised", self._call.label, exc_info=exc)
            finally:
                reset_current(token)
