"""Retries: how an idempotent call is sent again.

::

    outcome of a try               then
    a result                       it is returned
    the error that may pass by     another try after a pause; raised when there is no time for one
    another error                  raised
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ...protocol.lazily import Lazily

if TYPE_CHECKING:
    import tenacity
    from tenacity import RetryCallState, Retrying
else:
    tenacity = Lazily("tenacity")

FIRST = 0.05
"""Seconds of the first pause, at most; each further one may be twice as long."""

LONGEST = 1.0
"""Seconds of the longest pause."""

T = TypeVar("T")


class _Tries(Generic[T]):
    """The tries of one call; tenacity is told of each only whether it is worth another one.

    An error that tenacity got to see would hold itself by way of what that keeps of a call, and with it the
    frames of the caller, until the garbage collector runs.
    """

    __slots__ = ("_error", "_forget", "_function", "_passing", "_result", "_timeout", "_tried")

    def __init__(
        self,
        function: Callable[[], T],
        passing: type[Exception],
        timeout: float,
        forget: Callable[[], object] | None,
    ) -> None:
        self._function = function
        self._passing = passing
        self._timeout = timeout
        self._forget = forget
        self._tried = False
        self._result: T | None = None
        self._error: BaseException | None = None

    def first(self) -> bool:
        """The first try, without tenacity: most calls need no other one."""
        began = time.monotonic()
        failed = self()
        self._timeout -= time.monotonic() - began
        self._tried = True
        return failed

    def __call__(self) -> bool:
        """One try; whether it failed in the way that may pass by."""
        if self._tried:  # that one is told of here
            self._tried = False
            return True
        self._error = None
        try:
            self._result = self._function()
        except BaseException as error:  # tenacity would keep any other one, too
            self._error = error
        return isinstance(self._error, self._passing)

    def late(self, state: RetryCallState) -> bool:
        """Whether the next try would begin after the end."""
        return (state.seconds_since_start or 0.0) + state.upcoming_sleep >= self._timeout

    def prepare(self) -> None:
        """There is another one."""
        if self._forget is not None:
            self._forget()

    def end(self) -> T:
        """The result of the last try, or its error."""
        error, self._error = self._error, None
        if error is None:
            return cast("T", self._result)
        try:
            raise error
        finally:
            del error  # its traceback holds this frame


def _tries(state: RetryCallState) -> _Tries[object]:
    return cast("_Tries[object]", state.fn)


class Repeating:
    """Calls functions again for as long as they raise one kind of error; safe from any thread.

    Args:
        passing: the error after which it is worth another try.
        closed: ends a pause.
    """

    def __init__(self, passing: type[Exception], closed: threading.Event) -> None:
        self._passing = passing
        self._closed = closed
        self._retrying: Retrying | None = None

    def _tenaciously(self) -> Retrying:
        made = self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_result(bool),
            wait=tenacity.wait_random_exponential(multiplier=FIRST, max=LONGEST),
            stop=lambda state: _tries(state).late(state),
            sleep=tenacity.sleep_using_event(self._closed),
            before_sleep=lambda state: _tries(state).prepare(),
            retry_error_callback=lambda _: True,
        )
        return made

    def call(
        self, function: Callable[[], T], timeout: float, forget: Callable[[], object] | None = None
    ) -> T:
        """Its result; raises the error of the last try.

        Args:
            function: what to call.
            timeout: seconds for all tries together.
            forget: called before each further try.
        """
        tries = _Tries(function, self._passing, timeout, forget)
        if tries.first():
            (self._retrying or self._tenaciously())(tries)
        return tries.end()
