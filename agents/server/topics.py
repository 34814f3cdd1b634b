"""Topics of what is served: its signals, when somebody subscribed to them; members that are read regularly.

Of what is polled::

    read                                   published
    another value than the last one        at once
    the same                               every ten periods
    raised                                 likewise, as a `RemoteError`: its class and text

A read takes its turn like a call. In one lane no read begins before as much time has passed as the last one
took: a slow driver is polled at most half of the time.
"""

from __future__ import annotations

import copy
import heapq
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from ...delivery.interests import ALL
from ...protocol import paths
from ...protocol.errors import PzcError, RemoteError
from ...protocol.exceptions import text_of
from ...protocol.kinds import qualified
from ...protocol.paths import Path
from ...protocol.shown import printable
from ...protocol.values import PLAIN
from ...transport.threads import begin
from ..notifications.publisher import Publisher
from ..signals import UNDECLARED, Signal
from .lane import Lane
from .marks import Member
from .polled import read as read_polled
from .tree import Tree

logger = logging.getLogger("pzc.topics")

STALE = 10
"""Periods after which a value is published that has not changed."""

_NEVER = object()


class Forwarding:
    """Connects to a signal with its first subscriber and disconnects with its last one.

    Args:
        publisher: knows who listens, and publishes.
    """

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._forwarders: dict[str, tuple[Any, Callable[..., None]]] = {}
        self._asked: set[str] = set()
        self._open = True
        self._lock = threading.Lock()
        publisher.on_asked(self._asked.add)

    def follow(self, tree: Tree) -> None:
        """Connect to the signals that somebody subscribed to, and to no others."""
        with self._lock:
            known, asked = tree.topics(), self._asked.copy()
            self._asked -= asked
            if ALL in asked:
                asked |= known
            for name in {*known, *asked, *self._forwarders} if self._open else ():
                wanted = self._publisher.is_wanted(name)
                if wanted and name in self._forwarders and name not in asked:
                    continue
                signal = tree.signal(name) if wanted else None
                if self._forwarders.get(name, (signal,))[0] is not signal:  # another object is there now
                    self._disconnect(name)
                if signal is not None and name not in self._forwarders:
                    declares = isinstance(signal, Signal) and bool(signal.names)
                    forwarder = partial(self._forward, name, 0 if declares else len(UNDECLARED))
                    self._forwarders[name] = (signal, forwarder)
                    _try(name, signal.connect, forwarder)

    def _disconnect(self, name: str) -> None:
        signal, forwarder = self._forwarders.pop(name, (None, None))
        if signal is not None:
            _try(name, signal.disconnect, forwarder)

    def _forward(self, topic: str, least: int, /, *values: Any) -> None:
        self._publisher.publish(topic, (*values, *[None] * (least - len(values))))

    def close(self) -> None:
        """Disconnect from every signal."""
        with self._lock:
            self._open = False
            for name in list(self._forwarders):
                self._disconnect(name)


def _try(name: str, function: Callable[[Any], object], forwarder: Any) -> None:
    try:
        function(forwarder)
    except Exception as exc:  # one signal that fails must not cost the others
        logger.warning("signal %s: %s: %s", name, type(exc).__name__, exc)


@dataclass(order=True, slots=True)
class _Polled:
    due: float
    path: Path = field(compare=False)
    topic: str = field(compare=False)
    period: float = field(compare=False)
    last: Any = field(compare=False, default=_NEVER)
    at: float = field(compare=False, default=0.0)
    told: bool = field(compare=False, default=False)


class Poller:
    """Reads and publishes until it is closed, in a thread for each lane: a read waits for its turn there.

    Args:
        name: of the agent, for the thread's name.
        tree: what is served.
        lane_of: in which a member is read.
        publisher: publishes.
        periods: seconds between two reads, by path.

    Raises:
        LocalLimit: when there is no thread for it.
    """

    def __init__(
        self,
        name: str,
        tree: Tree,
        lane_of: Callable[[Member, str], Lane],
        publisher: Publisher,
        periods: Mapping[Path, float],
    ) -> None:
        self._tree = tree
        self._lane_of = lane_of
        self._publisher = publisher
        self._stopped = threading.Event()
        queues: dict[Lane, list[_Polled]] = {}
        for path, period in periods.items():
            polled = _Polled(monotonic(), path, paths.text(path), period)
            queues.setdefault(lane_of(tree.member({"on": path}), "get"), []).append(polled)
        for queue in queues.values():
            begin(
                threading.Thread(
                    target=self._run, args=(queue,), name=f"pzc-poll {name}".strip(), daemon=True
                )
            )

    def close(self) -> None:
        """Read nothing more; what is being read ends in its turn."""
        self._stopped.set()

    def _run(self, queue: list[_Polled]) -> None:
        free = 0.0
        while not self._stopped.is_set():
            polled = queue[0]
            left = max(polled.due, free) - monotonic()
            if left > 0:
                self._stopped.wait(left)
                continue
            asked = monotonic()
            value, took = self._read(polled)
            if self._stopped.is_set():
                return
            now = monotonic()
            free = now + took
            polled.due = max(asked + polled.period, free)
            self._warn(polled, took)
            heapq.heapreplace(queue, polled)
            self._publish(polled, value, now)

    def _warn(self, polled: _Polled, took: float) -> None:
        if 2 * took > polled.period and not polled.told:
            polled.told = True
            logger.warning(
                "reading %s takes %.3g s: it is polled every %.3g s at best, not every %.3g s",
                polled.topic, took, 2 * took, polled.period,
            )  # fmt: skip

    def _read(self, polled: _Polled) -> tuple[Any, float]:
        """What is there or was raised, and the seconds that reading it took."""
        done = threading.Event()
        found: list[Any] = [RemoteError("PeerLost", "the server is being stopped"), 0.0]

        def read() -> None:
            began = monotonic()
            try:
                value = read_polled(self._tree, polled.path)
                found[0] = value if type(value) in PLAIN else copy.deepcopy(value)
            except BaseException as exc:  # a driver may call sys.exit
                found[0] = RemoteError(qualified(type(exc)), printable(text_of(exc), 1000))
            found[1] = monotonic() - began
            done.set()

        try:
            self._lane_of(self._tree.look(polled.path), "get").run(read)
        except PzcError as exc:
            return RemoteError(qualified(type(exc)), str(exc)), 0.0
        while not (done.wait(_LOOK) or self._stopped.is_set()):
            pass
        return found[0], found[1]

    def _publish(self, polled: _Polled, value: Any, now: float) -> None:
        if _same(polled.last, value) and now - polled.at < STALE * polled.period:
            return
        polled.last, polled.at = value, now
        try:
            self._publisher.publish(polled.topic, value)
        except PzcError as exc:
            if not self._stopped.is_set():
                logger.warning("the value of %s cannot be published: %s", polled.topic, exc)


_LOOK = 0.1
"""Seconds between two looks whether the server is being stopped while a read waits for its turn."""


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, RemoteError):
        return str(one) == str(other)
    try:
        if getattr(one, "shape", None) != getattr(other, "shape", None):
            return False
        equal, odd = one == other, one != one  # not a number is the same again
        if not hasattr(equal, "all"):
            return bool(equal or (odd and other != other))
        equal = equal | (odd & (other != other))
        while getattr(equal, "ndim", 0):  # a table first tells it of each column
            equal = equal.all()
        return bool(equal)
    except Exception:  # a value that cannot be compared has changed
        return False
