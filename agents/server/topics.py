"""Topics of signals: a served signal is published as long as its topic has subscribers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from ...delivery.interests import ALL
from ..notifications.publisher import Publisher
from ..signals import UNDECLARED, Signal
from .tree import Tree

logger = logging.getLogger("pzc.topics")


class Forwarding:
    """Connects to a signal with its first subscriber and disconnects with its last one.

    Args:
        publisher: publishes, and reports which topics are wanted.
    """

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._connected: dict[str, tuple[Any, Callable[..., None]]] = {}
        self._asked: set[str] = set()
        self._open = True
        self._lock = threading.Lock()
        publisher.on_asked(self._asked.add)

    def follow(self, tree: Tree) -> None:
        """Connect to the signals that have subscribers, and to no others."""
        with self._lock:
            known, asked = tree.topics(), self._asked.copy()
            self._asked -= asked
            if ALL in asked:
                asked |= known
            for name in {*known, *asked, *self._connected} if self._open else ():
                wanted = self._publisher.is_wanted(name)
                if wanted and name in self._connected and name not in asked:
                    continue
                signal = tree.signal(name) if wanted else None
                if name in self._connected and self._connected[name][0] is not signal:  # replaced meanwhile
                    self._disconnect(name)
                if signal is not None and name not in self._connected:
                    declares = isinstance(signal, Signal) and bool(signal.names)
                    forward = partial(self._forward, name, 0 if declares else len(UNDECLARED))
                    self._connected[name] = signal, forward
                    _try(name, signal.connect, forward)

    def _disconnect(self, name: str) -> None:
        signal, forward = self._connected.pop(name)
        _try(name, signal.disconnect, forward)

    def _forward(self, topic: str, least: int, /, *values: Any) -> None:
        self._publisher.publish(topic, (*values, *[None] * (least - len(values))))

    def close(self) -> None:
        """Disconnect from every signal."""
        with self._lock:
            self._open = False
            for name in list(self._connected):
                self._disconnect(name)


def _try(name: str, function: Callable[[Any], object], forward: Any) -> None:
    try:
        function(forward)
    except Exception as exc:  # one signal that fails must not cost the others
        logger.warning("signal %s: %s: %s", name, type(exc).__name__, exc)
