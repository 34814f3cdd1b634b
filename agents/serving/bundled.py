"""Bundled: calls that came together, each with an id, a turn, a role, an outcome of its own.

::

    call       event                                        next
    -          its bundle came, its turn is now, quick      running, in the thread that got it
    -          its bundle came, otherwise                   waiting in the lane, in order
    waiting    its turn                                     running, in a worker of the lane
    waiting    cancelled, agent being stopped               over
    running    ended                                        over

    bundle     event                                        next
    -          came                                         open
    open       `bundle_slice` s of quick calls, or one       open: the rest waits in the lane
               that has not proved quick
    open       all that ran in one go ended, a call of      open: what is done is told
               another kind begins, `bundle_delay` seconds
    open       every call is over                           told, and its outcomes are kept as one

The content is ``{"pzc": "calls", "calls": [[call id, bytes], ...]}``, where the bytes are a message of a
proxy in the serializer of the request. Answers, any number of them, say ``{"pzc": "calls", "done": [[number,
bytes], ...]}``. An outcome that is too large for a bundle is sent as the reply to its call's own id.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ...protocol import limits, serializers
from ...protocol.errors import CallCancelled, PzcError, RemoteProtocolError, SerializeError
from ...protocol.frames import PZC01
from ...protocol.keyring import Role
from ..calling import answers
from ..calling.bundles import ACTIONS, MAX_BODY, MAX_BYTES
from ..messages import PS, portable, refusal, shown
from ..sockets.loop import Loop, Timer
from ..wire import Protocol
from .calls import Call, Caller
from .execution import Execution
from .lane import Lane, Turn
from .replies import CAPABLE_ARRAYS, Replies, Request, guarded
from .results import Outcomes, Results

logger = logging.getLogger("pzc.bundled")

MAX_ID = 64
"""Characters of a call's id."""


class BundledCall(Call):
    """One call of a bundle; ``content`` is its message once it was decoded."""

    # What most calls keep stands here once, instead of being set in each.
    turn: Turn | None = None
    name: tuple[str, object] = ("", None)
    cancelled: bool = False
    on_cancel: Callable[[], object] | None = None
    lane: Lane | None = None
    protocol: Protocol | None = None
    content: tuple[str, str, dict[str, Any]] | None = None

    def __init__(self, call_id: str, caller: Caller, number: int, body: bytes) -> None:
        self.id = call_id
        self.caller = caller
        self.number = number
        self.body = body


class Bundle:
    """Calls that came together, until all are over.

    Args:
        request: that carried them.
        pairs: ids and encoded messages.
        always_asks: as `Execution`.
    """

    def __init__(self, request: Request, pairs: list[tuple[str, bytes]], always_asks: bool) -> None:
        envelope, caller = request.envelope, request.caller
        self.request = request
        self.serializer = envelope.serializer
        self.trusted = envelope.trusted
        key = caller.key
        self.judged = key is None or (key.role >= Role.ADMIN and not always_asks)  # may do everything
        self.size = len(pairs)
        self.waiting = deque(
            [BundledCall(call_id, caller, number, body) for number, (call_id, body) in enumerate(pairs)]
        )
        self.outcomes = Outcomes(caller.key_id, envelope.serializer, [call_id for call_id, _ in pairs])
        self.untold: deque[tuple[int, bytes]] = deque()
        self.told_at = time.monotonic()
        self.alarm: Timer | None = None
        self._ends = itertools.count(1)
        small = self.serializer == "pickle" and envelope.sequence & CAPABLE_ARRAYS
        self.encode: Callable[[object], Any] = (
            serializers.encode_small if small else partial(serializers.encode, self.serializer)
        )

    def end_one(self) -> bool:
        """A call is over; True for the last one. Any thread."""
        return next(self._ends) == self.size


class Bundled:
    """Runs the calls of bundles; safe from any thread.

    Args:
        loop: whose thread may run quick calls.
        replies: sends the answers.
        lane: order of execution.
        results: keeps the outcomes.
        execution: runs a call.
    """

    def __init__(
        self, loop: Loop, replies: Replies, lane: Lane, results: Results, execution: Execution
    ) -> None:
        self._loop = loop
        self._replies = replies
        self._lane = lane
        self._results = results
        self._execution = execution
        self._order = threading.Lock()
        self._running: Bundle | None = None
        execution.before_queue = self._queue_running

    def take(self, request: Request, content: dict[str, Any]) -> None:
        """Run the calls of a bundle; the control word ``calls``.

        Raises:
            RemoteProtocolError: when it is no bundle, or one of its calls was seen before.
        """
        if self._loop.in_thread():
            self._begin(request, content)
        else:
            handle = partial(self._begin, content=content)
            self._loop.call(partial(guarded, self._replies, request, handle))

    def _begin(self, request: Request, content: dict[str, Any]) -> None:
        bundle = Bundle(request, _pairs(content), self._execution.always_asks)
        self._results.open(bundle.outcomes)
        try:
            self._execution.calls.begin_all(bundle.waiting)
        except BaseException:
            self._results.drop(bundle.outcomes)
            raise
        bundle.alarm = self._loop.call_later(limits.current.bundle_delay, partial(self._ring, bundle))
        self._queue_running()
        first = bundle.waiting[0]
        if self._lane.affine or not self._is_quick(bundle, first) or not self._lane.enter_now():
            self._queue(bundle)
            return
        self._running = bundle
        self._loop.step_aside()
        try:
            self._lane.here(partial(self._run_quick, bundle))
        finally:
            self._queue(bundle)
            self._running = None
            self._lane.leave()
            self._loop.step_back()
        self._tell(bundle)

    def _run_quick(self, bundle: Bundle) -> None:
        until, waiting, clock = time.monotonic() + limits.current.bundle_slice, bundle.waiting, time.monotonic
        while waiting and clock() < until:
            try:
                call = waiting[0]
                if not self._is_quick(bundle, call):
                    return
                waiting.popleft()
            except IndexError:  # the I/O thread, which is another one now, has queued them
                return
            if not self._was_cancelled(bundle, call):
                self._perform(bundle, call)

    def _was_cancelled(self, bundle: Bundle, call: BundledCall) -> bool:
        """End a call that was cancelled before it was queued anywhere."""
        if call.cancelled:
            error = CallCancelled("the call was cancelled before it started")
            self._end_refused(bundle, call, error)
        return call.cancelled

    def _queue_running(self) -> None:
        """Queue the calls that a quick one which is not quick holds up, before something else is queued."""
        bundle = self._running
        if bundle is not None:
            self._queue(bundle)

    def _queue(self, bundle: Bundle) -> None:
        with self._order:
            while bundle.waiting:
                call = bundle.waiting.popleft()
                if self._was_cancelled(bundle, call):
                    continue
                work = partial(self._run, bundle, call)
                call.turn = Turn(work, partial(self._end_refused, bundle, call))
                try:
                    self._lane.submit(call.turn)
                except PzcError as exc:
                    self._end_refused(bundle, call, exc)

    def _run(self, bundle: Bundle, call: BundledCall) -> None:
        if bundle.untold and not self._is_quick(bundle, call):
            self._tell(bundle)
        self._perform(bundle, call)
        if time.monotonic() - bundle.told_at > limits.current.bundle_slice:
            self._tell(bundle)
        elif bundle.untold and bundle.alarm is None:
            bundle.alarm = self._loop.call_later(limits.current.bundle_delay, partial(self._ring, bundle))

    def _is_quick(self, bundle: Bundle, call: BundledCall) -> bool:
        """True for a call that has proved quick, or will be refused."""
        if call.content is None:
            try:
                call.content = self._decode(bundle, call)
            except Exception:  # raised again when its turn comes
                return True
        return self._execution.is_quick(call.name)

    def _decode(self, bundle: Bundle, call: BundledCall) -> tuple[str, str, dict[str, Any]]:
        content = serializers.decode_part(bundle.serializer, call.body, trusted=bundle.trusted)
        if type(content) in (tuple, list) and len(content) == 3:
            word, action, options = content
            known = type(action) is str and action in ACTIONS
            if known and type(word) is str and word == PS and type(options) is dict:
                name = options.get("name")
                call.name = action, name if type(name) is str else None
                return content
        raise RemoteProtocolError(f"a bundle has calls of members only, not {shown(content)}")

    def _perform(self, bundle: Bundle, call: BundledCall) -> None:
        try:
            content = call.content or self._decode(bundle, call)
            if not bundle.judged:
                self._execution.judge(call, content)
            answer = self._execution.perform_message(call, content)
            body = _body(bundle, answer)
        except Exception as exc:
            self._end_refused(bundle, call, exc)
        except BaseException:  # such as SystemExit, by a result that is being encoded
            self._end_refused(bundle, call, RemoteProtocolError("the answer could not be written"))
        else:
            self._end(bundle, call, answer, body)

    def _end_refused(self, bundle: Bundle, call: BundledCall, error: Exception) -> None:
        self._replies.count_refusal(error)
        told = refusal(error)
        self._end(bundle, call, told, _body(bundle, told))

    def _end(self, bundle: Bundle, call: BundledCall, answer: Any, body: bytes | None) -> None:
        if body is None:
            self._tell_alone(bundle.request, call, answer)
        else:
            bundle.outcomes.bodies[call.id] = body
            bundle.untold.append((call.number, body))
        self._execution.calls.end(call)
        if bundle.end_one():
            if (alarm := bundle.alarm) is not None:
                alarm.cancel()
            self._results.close(bundle.outcomes)
            if self._running is not bundle:
                self._tell(bundle)

    def _tell_alone(self, bundled: Request, call: BundledCall, answer: Any) -> None:
        request = replace(bundled, envelope=replace(bundled.envelope, msgid=call.id, content=b""))
        frames = self._replies.encode(request, answer)
        self._results.keep(call, request.receiver, frames)
        self._replies.send(request, frames)

    def _ring(self, bundle: Bundle) -> None:
        bundle.alarm = None
        self._tell(bundle, late=True)

    def _tell(self, bundle: Bundle, late: bool = False) -> None:
        """Send the outcomes that were not sent yet; when ``late``, also that there are none."""
        bundle.told_at = time.monotonic()
        parts = [*_parts(bundle.untold)]
        for part in parts or [[]] * late:
            self._replies.reply(bundle.request, {"pzc": "calls", "done": part})


def _pairs(content: dict[str, Any]) -> list[tuple[str, bytes]]:
    pairs = content.get("calls")
    if (
        not isinstance(pairs, list | tuple)
        or not 0 < len(cast("list[Any]", pairs)) <= limits.current.bundle_calls
    ):
        raise RemoteProtocolError(f"a bundle has a list of 1 to {limits.current.bundle_calls} calls")
    try:
        for call_id, body in cast("list[Any]", pairs):
            if type(call_id) is not str or type(body) is not bytes or not 0 < len(call_id) <= MAX_ID:
                raise ValueError("another type")
    except (TypeError, ValueError) as exc:
        raise RemoteProtocolError(f"a call of a bundle is an id and bytes: {exc}") from exc
    return cast("list[tuple[str, bytes]]", pairs)


def _body(bundle: Bundle, answer: Any) -> bytes | None:
    """The answer to a call as it stands in a bundle; None when it must go by itself."""
    try:
        if not answers.is_return(answer):
            answer = portable(answer, PZC01, bundle.serializer)
        body = bundle.encode(answer)
    except SerializeError:
        return None
    return None if body is None or len(body) > MAX_BODY else bytes(body)


def _parts(untold: deque[tuple[int, bytes]]) -> Any:
    while untold:
        part: list[tuple[int, bytes]] = []
        size = 0
        while untold and size < MAX_BYTES:
            try:
                part.append(untold.popleft())
            except IndexError:  # another thread tells them
                break
            size += len(part[-1][1])
        if part:
            yield part
