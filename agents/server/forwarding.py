"""Forwarding: the signals of a served object that somebody subscribed to become notifications."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from ..interfaces import Publisher
from ..signals import ORIGINAL, Signal
from .tree import Tree

logger = logging.getLogger("pzc.forwarding")


class Forwarding:
    """Connects to a signal with its first subscriber and disconnects with its last one.

    Args:
        publisher: knows who listens, and publishes.
    """

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._forwarders: dict[str, tuple[Any, Callable[..., None]]] = {}
        self._open = True
        self._lock = threading.Lock()

    def follow(self, tree: Tree) -> None:
        """Connect to the signals that somebody subscribed to, and to no others."""
        with self._lock:
            signals = tree.signals() if self._open else {}
            for name, signal in signals.items():
                wanted = self._publisher.is_wanted(name)
                if self._forwarders.get(name, (signal,))[0] is not signal:
                    self._disconnect(name)
                if wanted and name not in self._forwarders:
                    declares = isinstance(signal, Signal) and bool(signal.names)
                    forwarder = partial(self._forward, name, 0 if declares else len(ORIGINAL))
                    self._forwarders[name] = (signal, forwarder)
                    _try(name, signal.connect, forwarder)
                elif not wanted:
                    self._disconnect(name)

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
