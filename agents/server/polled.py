"""Polled members: read regularly, and published as topics of their paths.

::

    member                                        its value
    attribute, property, item                     what it holds, when that is a value
    object that stays here, such as a parameter   what its ``get()`` returns
    method without arguments                      what it returns
    anything else                                 none: refused when the object is served

    read                                          published
    another value than the last one               at once
    the same                                      every ten periods
    raised                                        likewise, as a `RemoteError`: its class and text

A read takes its turn like a call. A slow driver is polled at most half of the time: after each read a lane
is left alone for as long as that took.
"""

from __future__ import annotations

import inspect
import logging
import pickle
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from time import monotonic
from typing import Any

from ...protocol import paths
from ...protocol.errors import ConfigError, MemberRefused, PzcError, RemoteError, SerializeError
from ...protocol.exceptions import text_of
from ...protocol.kinds import qualified
from ...protocol.paths import Path
from ...protocol.shown import printable, shown
from ...protocol.values import PLAIN, first_reference
from ...transport.threads import begin
from ..notifications.publisher import Publisher
from . import members
from .answers import by_value
from .lane import Lane
from .marks import Member
from .tree import Tree

logger = logging.getLogger("pzc.topics")

STALE = 10
"""Periods after which a value is published that has not changed."""

_LOOK = 0.1
"""Seconds between two looks whether the server stops, while a read waits for its turn."""


def read(tree: Tree, path: Path) -> Any:
    """Read a member, in its lane.

    Raises:
        MemberRefused, SerializeError: for a member that has no value.
        Exception: whatever the object raised.
    """
    thing, name = tree.find(path, _no_handle), paths.text(path)
    if type(thing) in PLAIN or first_reference(thing) is None:
        return by_value(thing, name, read=True)
    if members.is_signal(thing):
        raise MemberRefused(f"{name!r} is a signal, which is published whenever it is emitted")
    if members.kind_told(thing) == "method":
        return _called(thing, f"{name}()")
    get = getattr(thing, "get", None)
    return _called(get, f"{name}.get()") if callable(get) else by_value(thing, name, read=True)


def _called(method: Any, name: str) -> Any:
    try:
        inspect.signature(method).bind()
    except TypeError as exc:
        raise MemberRefused(f"{name} cannot be called without arguments: {exc}") from None
    except ValueError:  # a function in C may have no signature
        pass
    if isinstance(method, type) or inspect.iscoroutinefunction(method):
        raise MemberRefused(f"{name} is a class or async def, which has no value to publish")
    return by_value(method(), name)


def _no_handle(_call: Any, _handle: Any) -> object:
    raise LookupError("an object that a method returned cannot be polled")


def check(tree: Tree, written: str, path: Path) -> None:
    """Read a member once, before it is polled; an instrument that does not answer yet is no reason to refuse.

    Raises:
        ConfigError: for a member that is missing, or has no value.
    """
    try:
        read(tree, path)
    except (MemberRefused, SerializeError) as exc:
        raise ConfigError(f"poll names {shown(written)}: {exc}") from None
    except (Exception, SystemExit) as exc:
        if (why := _missing(tree, path)) is not None:
            raise ConfigError(f"poll names {shown(written)}: {why}") from exc
        logger.info("%s cannot be read yet: %r", written, exc)


def _missing(tree: Tree, path: Path) -> Exception | None:
    """The error of the first step that is missing; None when a member that is there raised."""
    owner: object = tree.root
    for step in path:
        try:
            owner = tree.find((step,), _no_handle, start=owner)
        except Exception as exc:
            if not isinstance(step, str):
                return exc if isinstance(exc, LookupError) else None
            there = inspect.getattr_static(owner, step, members.MISSING) is not members.MISSING
            return None if there else members.missing(owner, step, "")
    return None


@dataclass(slots=True)
class _Polled:
    path: Path
    topic: str
    period: float
    due: float
    last: object = None
    """What was published: its pickle, or class and text of an error."""
    at: float = 0.0
    warned: bool = False


class Poller:
    """Reads and publishes until it is closed; each lane has a thread that waits for turns there.

    Args:
        name: of the agent, for the threads' names.
        tree: what is served.
        lane_of: gives the lane of an action of a member.
        publisher: publishes.
        periods: seconds between two reads, by path.

    Raises:
        LocalLimit: when no thread can be started.
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
        self._publisher = publisher
        self._stopped = threading.Event()
        of_lane: dict[Lane, list[_Polled]] = {}
        for path, period in periods.items():
            polled = _Polled(path, paths.text(path), period, monotonic())
            of_lane.setdefault(lane_of(tree.member({"on": path}), "get"), []).append(polled)
        thread_name = f"pzc-poll {name}".strip()
        for entry in of_lane.items():
            begin(threading.Thread(target=self._run, args=entry, name=thread_name, daemon=True))

    def close(self) -> None:
        """Read nothing more; what is being read ends in its turn."""
        self._stopped.set()

    def _run(self, lane: Lane, several: list[_Polled]) -> None:
        while True:
            polled = min(several, key=attrgetter("due"))
            if self._stopped.wait(max(0.0, polled.due - monotonic())):
                return
            asked = monotonic()
            identity, value, took = self._read(lane, polled.path)
            now = monotonic()
            polled.due = max(asked + polled.period, now)
            if self._stopped.is_set():
                return
            if 2 * took > polled.period and not polled.warned:
                polled.warned = True
                logger.warning(
                    "reading %s takes %.3g s: it is polled every %.3g s at best, not every %.3g s",
                    polled.topic, took, 2 * took, polled.period,
                )  # fmt: skip
            if identity != polled.last or now - polled.at >= STALE * polled.period:
                polled.last, polled.at = identity, now
                self._publish(polled.topic, value)
            if self._stopped.wait(took):
                return

    def _read(self, lane: Lane, path: Path) -> tuple[object, Any, float]:
        """What tells a value from another, the value or error, and the seconds that reading it took."""
        done = threading.Event()
        outcome: list[tuple[object, Any, float]] = []

        def read_now() -> None:
            began = monotonic()
            try:
                value = read(self._tree, path)
                identity: object = pickle.dumps(value)  # now: later the driver may change the value
            except BaseException as exc:  # a driver may call sys.exit
                identity = qualified(type(exc)), printable(text_of(exc), 1000)
                value = RemoteError(*identity)
            else:
                value = value if type(value) in PLAIN else pickle.loads(identity)
            outcome.append((identity, value, monotonic() - began))
            done.set()

        try:
            lane.run(read_now)
        except PzcError as exc:
            return type(exc), RemoteError(qualified(type(exc)), str(exc)), 0.0
        while not (done.wait(_LOOK) or self._stopped.is_set()):
            pass
        return outcome[0] if outcome else (None, None, 0.0)

    def _publish(self, topic: str, value: Any) -> None:
        try:
            self._publisher.publish(topic, value)
        except PzcError as exc:
            if not self._stopped.is_set():
                logger.warning("the value of %s cannot be published: %s", topic, exc)
