"""Bundles: calls that nobody waits for now, sent together to their peer.

::

    call       event                                            next
    -          put                                              waiting
    waiting    no bundle of its peer is unanswered              sent, together with all that wait
    waiting    a later call must go by itself                   sent
    waiting    cancelled, or its time is over                   over, never sent
    sent       its outcome came, in a bundle or by itself       over
    sent       the bundle failed, its time is over              over

    bundle     event                                            next
    -          sent                                             unanswered
    unanswered first answer, refusal, or `bundle_patience`       answered: the next one may go
    answered   every call is over                               over

So a lone call leaves at once, and what gathers meanwhile leaves as one signed message. A server says
within a few milliseconds which calls are done, and tells of the others later.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ...protocol import limits, serializers
from ...protocol.errors import AgentClosed, CallTimeout, PeerLost, RemoteProtocolError
from ...protocol.shown import shown
from ..messages import control, read_refusal
from ..sockets.loop import Loop, Timer
from ..wire import Protocol
from . import answers
from .lines import abilities
from .peers import Peer
from .reply import Reply

if TYPE_CHECKING:
    from .deferred import Deferred
    from .futures import CallFuture

logger = logging.getLogger("pzc.bundles")

ACTIONS = frozenset({"exec", "get", "getattr", "setattr"})
"""Actions of calls that may stand in a bundle."""

MAX_BYTES = 48 << 10
"""Bytes of a bundle's calls, from which on the next ones wait for the next bundle."""

MAX_BODY = 12 << 10
"""Bytes of a call, or of an outcome, that stands in a bundle; a larger one goes by itself."""

UNANSWERED = 0.25
"""Seconds after which an unanswered call is kept alive at the server."""

Hold = Callable[..., Callable[[], object]]

_Waiting: TypeAlias = "tuple[CallFuture, bytes] | Callable[[], object]"


class Bundle:
    """Calls that were sent together, until all are over; I/O thread.

    Args:
        outbox: that sent them.
        futures: theirs, by their numbers.
        release: ends what is held at the peer.
    """

    def __init__(self, outbox: Outbox, futures: list[CallFuture], release: Callable[[], object]) -> None:
        self._outbox = outbox
        self.futures: list[CallFuture | None] = [*futures]
        self.left = len(futures)
        self._release = release

    def take(self, reply: Reply) -> None:
        """Read an answer to the bundle."""
        self._outbox.answered(self)
        content = cast("dict[str, Any]", reply.content) if control(reply.content) == "calls" else {}
        done = content.get("done")
        if not isinstance(done, list | tuple):
            told = shown(reply.content, 200)
            self.fail(RemoteProtocolError(f"{self._outbox.peer.endpoint} did not answer calls: {told}"))
            return
        for entry in cast("list[Any]", done):
            try:
                number, body = entry
                future = self._pop(number)
                if future is not None:
                    _read(future, body, reply)
            except BaseException:  # of a user's done-callback, which must not cost the other calls theirs
                logger.exception("an outcome of %s could not be handed out", self._outbox.peer.endpoint)

    def take_alone(self, call_id: str, reply: Reply) -> None:
        """Read the answer to one of the calls."""
        for number, future in enumerate(self.futures):
            if future is not None and future.urn == call_id:
                self._pop(number)
                future.read(reply)

    def has(self, call_id: str) -> bool:
        """True while the call of that id is one of these and not over."""
        return any(future is not None and future.urn == call_id for future in self.futures)

    def fail(self, error: BaseException) -> None:
        """End every call that is not over."""
        self._outbox.answered(self)
        for number, future in enumerate(self.futures):
            if future is not None:
                self._pop(number)
                _fail(future, copy.copy(error))

    def expire(self, now: float) -> int:
        """End the calls whose time is over; gives how many."""
        late = [
            number for number, future in enumerate(self.futures) if future is not None and future.due <= now
        ]
        for number in late:
            future = self._pop(number)
            if future is not None:
                _expire(future, self._outbox.peer)
        return len(late)

    @property
    def due(self) -> float:
        """When the time of the next call is over, in monotonic seconds; never without any."""
        return min((future.due for future in self.futures if future is not None), default=math.inf)

    def _pop(self, number: Any) -> CallFuture | None:
        future = self.futures[number]
        if future is not None:
            self.futures[number] = None
            self.left -= 1
            if future.ended is not None:
                future.ended()
            if not self.left:
                self._release()
                self._outbox.over(self)
        return future


def _read(future: CallFuture, body: bytes, reply: Reply) -> None:
    try:
        content = serializers.decode_part(reply.serializer, body, trusted=reply.trusted)
    except Exception as exc:
        future.finish(error=exc)
        return
    if answers.is_return(content) and reply.sender == future.server:
        future.finish(content[2])
    else:
        future.read(reply._replace(content=content, refusal=read_refusal(content)))


def _expire(future: CallFuture, peer: Peer) -> None:
    _fail(future, CallTimeout(f"no reply from {peer.endpoint} within {future.seconds:g} s"))


def _fail(future: CallFuture, error: BaseException) -> None:
    try:
        future.fail(error)
    except BaseException:
        logger.exception("%r could not be handed out", error)


class Outbox:
    """Calls on their way to one peer.

    Args:
        deferred: sends the bundles.
        loop: whose thread sends them.
        protocol: of the agent.
        peer: who has announced that it takes bundles.
        hold: `Keeper.hold` of the agent.

    Attributes:
        new_urn: makes the id of a call.
    """

    def __init__(self, deferred: Deferred, loop: Loop, protocol: Protocol, peer: Peer, hold: Hold) -> None:
        self.peer = peer
        self.new_urn = protocol.new_urn
        self._deferred = deferred
        self._loop = loop
        self._hold = hold
        self._serializer = protocol.codec.serializer
        self._arrays = self._serializer == "pickle" and abilities(peer)["arrays"]
        self._waiting: deque[_Waiting] = deque()
        self._bundles: list[Bundle] = []
        self._unanswered: Bundle | None = None
        self._patience: Timer | None = None
        self._woken = False  # the I/O thread will look at what waits
        self._look_at = math.inf
        self._alarm: Timer | None = None
        self._closed = False

    def encode(self, message: tuple[str, str, dict[str, Any]]) -> bytes | None:
        """A call as it stands in a bundle; None when it is too large and must go by itself.

        Raises:
            SerializeError: when it cannot be expressed.
        """
        if self._arrays:
            body = serializers.encode_small(message)
        else:
            body = serializers.encode(self._serializer, message)
        return None if body is None or len(body) > MAX_BODY else bytes(body)

    def put(self, future: CallFuture, body: bytes, timeout: float) -> None:
        """Send a call soon; any thread, never blocks."""
        future.seconds = timeout
        future.due = due = time.monotonic() + timeout
        waiting = self._waiting
        if len(waiting) + self._deferred.bundled >= limits.current.deferred_calls:
            future.fail(PeerLost(f"{limits.current.deferred_calls} deferred requests are already unanswered"))
            return
        waiting.append((future, body))
        if not self._woken:
            self._woken = True
            self._loop.call(self._pump)
        if due < self._look_at:
            self._loop.call(partial(self._look_until, due))

    def put_alone(self, send: Callable[[], object]) -> None:
        """Call ``send`` in the I/O thread: behind what waits, which goes at once, and before what comes."""
        self._waiting.append(send)
        self._loop.call(self._send_all)

    def _pump(self) -> None:
        while self._waiting and self._unanswered is None:
            self._send()
        if self._unanswered is None:
            self._woken = False
            if self._waiting and not self._woken:  # put meanwhile, by a thread that saw it woken
                self._woken = True
                self._loop.call(self._pump)

    def _send_all(self) -> None:
        while self._waiting:
            self._send()

    def _send(self) -> None:
        calls: list[tuple[str, bytes]] = []
        futures: list[CallFuture] = []
        waiting, size, latest = self._waiting, 0, 0.0
        while waiting and len(calls) < limits.current.bundle_calls and size < MAX_BYTES:
            entry = waiting.popleft()
            if not isinstance(entry, tuple):
                if calls:
                    waiting.appendleft(entry)
                else:
                    entry()
                break
            future, body = entry
            future.sent = True
            if not future.unfinished:
                _leave(future)
                continue
            calls.append((future.urn, body))
            futures.append(future)
            size += len(body)
            latest = future.due if future.due > latest else latest
        if not calls:
            return
        bundle = Bundle(self, futures, self._hold(self.peer, after=UNANSWERED))
        self._bundles.append(bundle)
        self._deferred.bundled += len(calls)
        self._unanswered = bundle
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self._loop.call_later(limits.current.bundle_patience, partial(self._go_on, bundle))
        left = max(0.0, latest - time.monotonic())
        try:
            self._deferred.send_bundle(self.peer, {"pzc": "calls", "calls": calls}, left, bundle)
        except Exception as exc:
            bundle.fail(exc)

    def answered(self, bundle: Bundle) -> None:
        """Send the next bundle; this one's calls may go on."""
        if self._unanswered is bundle:
            if self._patience is not None:
                self._patience.cancel()
            self._unanswered = None
            self._pump()

    _go_on = answered

    def over(self, bundle: Bundle) -> None:
        """Every call of a bundle is over."""
        self._bundles.remove(bundle)
        self._deferred.bundled -= len(bundle.futures)
        self.answered(bundle)

    def _look_until(self, due: float) -> None:
        if due < self._look_at:
            self._look_at = due
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._loop.call_later(max(0.0, due - time.monotonic()), self._look)

    def _look(self) -> None:
        now = time.monotonic()
        self._look_at = math.inf
        late = [future for future in self._unsent() if future.due <= now]
        for future in late:
            _expire(future, self.peer)
        expired = [bundle for bundle in [*self._bundles] if bundle.expire(now)]
        if late or expired:
            self._deferred.forget(self.peer)
        # Only now: the end of a bundle lets the next one go.
        nearest = min((bundle.due for bundle in self._bundles), default=math.inf)
        nearest = min([nearest, *(future.due for future in self._unsent() if future.due > now)])
        if nearest < math.inf:
            self._look_until(max(nearest, now))

    def _unsent(self) -> list[CallFuture]:
        return [entry[0] for entry in self._waiting.copy() if isinstance(entry, tuple)]

    def close(self) -> None:
        """End every call with AgentClosed; I/O thread."""
        error = AgentClosed("the agent was stopped")
        for bundle in [*self._bundles]:
            bundle.fail(error)
        while self._waiting:
            entry = self._waiting.popleft()
            if isinstance(entry, tuple):
                _leave(entry[0])
                _fail(entry[0], copy.copy(error))
            else:
                entry()


def _leave(future: CallFuture) -> None:
    if future.ended is not None:
        future.ended()
