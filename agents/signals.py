"""Signal: the notification source that a served object owns, as the original Pizco's."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("pzc.signals")

Slot = Callable[..., Any]


def accepted_arguments(slot: Slot, most: int = 3) -> int:
    """How many positional arguments a slot takes, at most ``most``."""
    try:
        parameters = inspect.signature(slot).parameters.values()
    except (TypeError, ValueError):
        return most
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return most
    return min(most, sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters))


class Signal:
    """Calls its slots in the order in which they were connected; safe from any thread.

    A slot may take fewer than the three arguments ``(value, old_value, other)``. The first
    exception in a slot reaches the caller of `emit`, after the other slots were called; further
    ones are logged.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: tuple[tuple[Slot, int], ...] = ()

    @property
    def slots(self) -> list[Slot]:
        """The connected slots, in order."""
        return [slot for slot, _ in self._slots]

    def connect(self, slot: Slot) -> None:
        """Call ``slot`` at every emission; connecting it again changes nothing.

        Raises:
            TypeError: when it cannot be called.
        """
        if not callable(slot):
            raise TypeError(f"a slot must be callable, not {type(slot).__name__}")
        entry = (slot, accepted_arguments(slot))
        with self._lock:
            if all(known != slot for known, _ in self._slots):
                self._slots = (*self._slots, entry)

    def disconnect(self, slot: Slot | None = None) -> None:
        """Stop calling ``slot``, or every slot when None is given.

        Raises:
            ValueError: when the slot was not connected.
        """
        with self._lock:
            kept = () if slot is None else tuple(entry for entry in self._slots if entry[0] != slot)
            if slot is not None and len(kept) == len(self._slots):
                raise ValueError(f"{slot!r} is not connected to this signal")
            self._slots = kept

    def emit(self, value: Any = None, old_value: Any = None, other: Any = None) -> None:
        """Call every slot with as many of the three arguments as it takes."""
        failure: Exception | None = None
        for slot, count in self._slots:
            try:
                slot(*(value, old_value, other)[:count])
            except Exception as exc:
                if failure is None:
                    failure = exc
                else:
                    logger.warning("a further slot of the same emission failed", exc_info=exc)
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback holds this frame, and with it what was emitted
