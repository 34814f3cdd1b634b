"""Watch: names that are there, and as they come and go, without an agent of one's own.

::

    entry        heard                        told
    unknown      it appears                   it is there
    unknown      it is gone                   nothing
    there        it appears                   nothing
    there        it changes                   nothing; `Watch.entries` has it as it is now
    there        it is gone                   it is gone
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Literal, NamedTuple, Self, get_args

from ..discovery.events import Appeared, Changed, Event, Vanished
from ..discovery.index import Key, key_of
from ..discovery.names import Pattern
from ..discovery.records import Entry, Kind
from ..protocol.errors import AgentClosed, ConfigError, ReceiveTimeout, SubscriptionClosed
from ..transport import loops
from ..transport.executor import NO_THREAD, Executor
from ..transport.inherited import Stays, check_own, forked_since, forks
from ..transport.settings import load
from ..transport.threads import Condition, waited
from ..transport.timers import checked_wait
from ..transport.wire import Protocol, chosen
from .naming import participants
from .naming.discovering import Participant, changed
from .naming.naming import AGAIN
from .naming.participants import release as release

MOST = 10_000
"""Changes that wait for a reader, and calls that wait for the thread of the callbacks."""

OnEntry = Callable[[Entry], object]


class NameChange(NamedTuple):
    """Something with a name is there, or is gone.

    Attributes:
        there: whether it is there now.
        entry: what it is.
    """

    there: bool
    entry: Entry


class Watch(Stays, Iterator[NameChange]):
    """Tells what comes and goes; made by `watch`. Iterate over it, also with ``async for``, or use callbacks.

    Callbacks run one at a time, in order, in a thread of its own.

    Args:
        participant: hears of names; given back by `close`.
        pattern: of names.
        kind: of entries; None for all.
        on_appear: called with the entry of what is there, and of what comes.
        on_leave: called with the entry of what is gone.

    Attributes:
        on_appear: as given; may be set at any time.
        on_leave: likewise.
        dropped: changes that were left out for a reader or a callback which was `MOST` behind.
    """

    def __init__(
        self,
        participant: Participant,
        pattern: Pattern,
        kind: Kind | None,
        on_appear: OnEntry | None,
        on_leave: OnEntry | None,
    ) -> None:
        self.on_appear = on_appear
        self.on_leave = on_leave
        self.dropped = 0
        self._participant = participant
        self._pattern = pattern
        self._kind: Kind | None = kind
        self._executor = Executor("pzc-watch")
        self._changed = Condition()
        self._there: dict[Key, Entry] = {}
        self._waiting: deque[NameChange] = deque()
        self._calls: deque[NameChange] = deque()
        self._waiters: list[Future[None]] = []
        self._closed = False
        self._forks = forks()
        with changed():  # nothing comes between what is known now and what is told from now on
            participant.listen(self._on_event)
            known = participant.match(pattern.text, kind)
        for entry in known:
            self._note(True, entry)
        participant.ask([pattern.text])

    @property
    def entries(self) -> list[Entry]:
        """What is there now, by name."""
        with self._changed:
            return sorted(self._there.values(), key=lambda entry: entry.name)

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if isinstance(event, Appeared | Vanished):
            if entry.is_a(self._kind) and self._pattern.matches(entry.name):
                self._note(isinstance(event, Appeared), entry)
        elif isinstance(event, Changed):
            with self._changed:
                if (key := key_of(entry)) in self._there:
                    self._there[key] = entry

    def _note(self, there: bool, entry: Entry) -> None:
        key = key_of(entry)
        with self._changed:
            if self._closed or there is (key in self._there):
                return
            if there:
                self._there[key] = entry
            else:
                del self._there[key]
            change = NameChange(there, entry)
            if len(self._waiting) >= MOST:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(change)
            if len(self._calls) >= MOST:
                self.dropped += 1
            else:
                self._calls.append(change)
                self._submit()
            self._wake()

    def _submit(self) -> None:
        """Let the next call be made in its turn, once there is a thread for it."""
        try:
            self._executor.submit(self._call)
        except AgentClosed:
            pass
        except RuntimeError:
            loops.later(NO_THREAD, self._submit)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.set_result(None)
        self._changed.notify_all()

    def _call(self) -> None:
        change = self._calls.popleft()
        callback = self.on_appear if change.there else self.on_leave
        if callback is not None:
            callback(change.entry)

    def recv(self, timeout: float | None = None) -> NameChange:
        """The next change; at first what is there already.

        Args:
            timeout: seconds; None waits until `close`.

        Raises:
            ReceiveTimeout: when there was none in time.
            SubscriptionClosed: after `close`.
            AgentClosed: in a forked child, when it is the parent's.
        """
        check_own(self._forks, self)
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._waiting:
                if self._closed:
                    raise SubscriptionClosed(f"the watch of {self._pattern.text} was closed")
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise ReceiveTimeout(f"nothing of {self._pattern.text} came or went within {timeout:g} s")
                self._changed.wait(left)
            return self._waiting.popleft()

    def __next__(self) -> NameChange:
        try:
            return self.recv()
        except SubscriptionClosed:
            raise StopIteration from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> NameChange:
        """The next change, awaited; a cancelled wait loses none."""
        from .client.awaitable.threads import finished  # and asyncio, which nothing else here needs

        check_own(self._forks, self)
        while True:
            with self._changed:
                if self._waiting:
                    return self._waiting.popleft()
                if self._closed:
                    raise StopAsyncIteration
                waiter: Future[None] = Future()
                self._waiters.append(waiter)
            try:
                await finished(waiter)
            finally:
                with self._changed, suppress(ValueError):
                    self._waiters.remove(waiter)

    def close(self) -> None:
        """End it: no callback begins after that, and iterating ends. No effect again, or in a child."""
        if forked_since(self._forks):
            return
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._waiting.clear()
            self._wake()
        self._participant.unlisten(self._on_event)
        self._executor.close()
        participants.release(self._participant)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def acquire(partition: str | None = None, protocol: Protocol | None = None) -> Participant:
    """The participant of a partition, which `participants.release` gives back; arguments as of `watch`."""
    settings = load()
    site = participants.site_of(settings, partition)
    return participants.acquire(site, chosen(protocol, settings))


def hear(participant: Participant, pattern: str, seconds: float) -> None:
    """Ask, twice as datagrams get lost, who is there by names that fit, and wait for so many seconds."""
    first = min(AGAIN, seconds)
    for pause in (first, seconds - first)[: 1 + (seconds > first)]:
        participant.ask([pattern])
        waited(threading.Event().wait, pause)


def _check_kind(kind: str | None) -> None:
    if kind is not None and kind not in get_args(Kind):
        raise ConfigError(f"kind={kind!r} cannot be used: expected one of {', '.join(get_args(Kind))}")


def watch(
    kind: Literal["agent", "service", "topic"] | None = "agent",
    pattern: str = "*",
    *,
    on_appear: OnEntry | None = None,
    on_leave: OnEntry | None = None,
    partition: str | None = None,
    protocol: Protocol | None = None,
) -> Watch:
    """Names as they come and go: ``for there, entry in pzc.watch(pattern="psu*"): ...``.

    Args:
        kind: ``agent`` (services, too), ``service`` or ``topic``; None for all.
        pattern: of names; ``*`` is everything, ``cam*`` fits the last part of names, ``/lab/**`` all below.
        on_appear: called with the entry (``name kind type addresses agent host pid`` and more) of what is
            there, and of what comes. Default: nothing is called.
        on_leave: called with the entry of what is gone: at once when it said so, 3 to 4 s after its death.
        partition: default ``PZC_PARTITION``.
        protocol: default `Protocol`; its keys sign, and are accepted.

    Returns:
        An iterator, to be closed at the end, also as a context manager. `Watch.entries` is what is there now.

    Raises:
        ConfigError: for a kind, callback, pattern, partition or setting that cannot be used.
    """
    _check_kind(kind)
    for name, callback in (("on_appear", on_appear), ("on_leave", on_leave)):
        if not (callback is None or callable(callback)):
            raise ConfigError(f"{name}={callback!r} cannot be used: expected a function")
    fits = Pattern(pattern)
    participant = acquire(partition, protocol)
    try:
        return Watch(participant, fits, kind, on_appear, on_leave)
    except BaseException:
        participants.release(participant)
        raise


def discover(
    pattern: str = "*",
    timeout: float = 1.0,
    *,
    kind: str | None = None,
    partition: str | None = None,
    protocol: Protocol | None = None,
) -> list[Entry]:
    """Who and what is there, by name.

    Args:
        pattern: of names; ``*`` is everything, ``cam*`` fits the last part of names, ``/lab/**`` all below.
        timeout: seconds to listen for; those that are there answer within 0.1 s.
        kind: ``agent`` (services, too), ``service`` or ``topic`` only.
        partition: default ``PZC_PARTITION``.
        protocol: default `Protocol`; its keys sign, and are accepted.

    Returns:
        Entries sorted by name: ``name kind type addresses agent host pid`` and more.

    Raises:
        ConfigError: for a kind, pattern, partition or setting that cannot be used.
    """
    seconds = checked_wait(timeout)
    _check_kind(kind)
    Pattern(pattern)
    participant = acquire(partition, protocol)
    try:
        hear(participant, pattern, seconds)
        return participant.match(pattern, kind)
    finally:
        participants.release(participant)
