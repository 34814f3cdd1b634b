"""Signal: the notification source that a served object owns, and the slots that are connected to one."""

from __future__ import annotations

import inspect
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any, cast

from ..protocol.errors import ArgumentsRefused, ConfigError
from ..transport.inherited import Stays

logger = logging.getLogger("pzc.signals")

Slot = Callable[..., Any]

UNDECLARED = ("value", "old_value", "other")
"""What a signal carries that declares nothing; what is not emitted is None."""


def is_awaited(function: object) -> bool:
    """True for a coroutine function, and for an object that is called like one."""
    if not callable(function):
        return False
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def check_slot(slot: object) -> None:
    """Judge a slot that is called in a thread.

    Raises:
        TypeError: when it cannot be called, or nobody would await what it returns.
    """
    if not callable(slot):
        raise TypeError(f"a slot must be callable, not {type(slot).__name__}")
    if is_awaited(slot):
        raise TypeError(
            f"nobody would await slot {slot!r}: connect it to a proxy of pzc.aio, or give it to "
            "`Agent.subscribe` as callback"
        )


def accepted_arguments(slot: Slot) -> int | None:
    """How many positional arguments a slot takes, at most; None when that cannot be told."""
    owner = getattr(slot, "__self__", None)
    if isinstance(owner, Signal) and slot == owner.emit:
        return len(owner.names or UNDECLARED)
    try:
        parameters = inspect.signature(slot).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None if inspect.isroutine(slot) and not hasattr(slot, "__code__") else sys.maxsize
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


class Connected:
    """A slot, and how many values it takes; None until it was called, when it does not tell."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.count = accepted_arguments(slot)

    def attempt(self, values: tuple[Any, ...]) -> None:
        """Call it with all values; with one less as long as it refuses their number."""
        refusal: TypeError | None = None
        for count in range(len(values), -1, -1):
            try:
                self.slot(*values[:count])
            except TypeError as exc:
                if not _is_of_call(exc):
                    self.count = count
                    raise
                refusal = refusal or exc
            except Exception:
                self.count = count
                raise
            else:
                self.count = count
                return
        try:
            raise cast("TypeError", refusal)
        finally:
            del refusal  # its traceback holds this frame


def _is_of_call(error: TypeError) -> bool:
    """Whether a call was refused, and not something that the callable did."""
    here = error.__traceback__
    inside = None if here is None else here.tb_next
    return inside is None or (inside.tb_next is None and "argument" in str(error))


class SlotList:
    """Calls slots in the order in which they were connected; safe from any thread.

    A slot gets as many of the values as it takes. The first exception in a slot reaches the caller, after the
    other slots were called; further ones are logged.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: tuple[Connected, ...] = ()

    @property
    def slots(self) -> list[Slot]:
        """The connected slots, in order."""
        return [each.slot for each in self._slots]

    def connect(self, slot: Slot) -> None:
        """Call ``slot`` at every emission; connecting it again changes nothing.

        Raises:
            TypeError: when it cannot be called, or is a coroutine function.
        """
        self.put(slot)

    def put(self, slot: Slot) -> Connected:
        """As `connect`; returns what `take_back` takes."""
        check_slot(slot)
        entry = Connected(slot)
        with self._lock:
            if all(known.slot != slot for known in self._slots):
                self._slots = (*self._slots, entry)
            else:
                self._slots = tuple(entry if known.slot == slot else known for known in self._slots)
        return entry

    def take_back(self, entry: Connected) -> None:
        """Undo a `put`, unless its slot was connected again since."""
        with self._lock:
            self._slots = tuple(known for known in self._slots if known is not entry)

    def disconnect(self, slot: Slot | None = None) -> None:
        """Stop calling ``slot``, or every slot when None is given.

        Raises:
            ValueError: when the slot was not connected.
        """
        with self._lock:
            kept = () if slot is None else tuple(entry for entry in self._slots if entry.slot != slot)
            if slot is not None and len(kept) == len(self._slots):
                raise ValueError(f"{slot!r} is not connected to this signal")
            self._slots = kept

    def call(self, values: tuple[Any, ...]) -> None:
        """Call every slot."""
        failure: Exception | None = None
        for each in self._slots:
            try:
                if each.count is None:
                    each.attempt(values)
                else:
                    each.slot(*values[: each.count])
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


class Signal(Stays, SlotList):
    """What a served object tells; see `SlotList` for its slots.

    Args:
        names: of the values that each emission carries, such as ``Signal("value", "unit")``. Default: the
            three ``value``, ``old_value`` and ``other``, each None when it is not given.

    Attributes:
        names: as given.

    Raises:
        ConfigError: for a name that no argument can have, or one that comes twice.
    """

    def __init__(self, *names: str) -> None:
        super().__init__()
        for name in names:
            if not (isinstance(cast("object", name), str) and name.isidentifier()) or names.count(name) > 1:
                raise ConfigError(f"{name!r} cannot be a name of what a signal carries, out of {names!r}")
        self.names = names

    def __repr__(self) -> str:
        return f"<Signal of {', '.join(self.names or UNDECLARED)}>"

    def emit(self, *values: Any, **named: Any) -> None:
        """Call every slot with as many of the values as it takes.

        Args:
            values: in the order of the names.
            named: the others, by their names.

        Raises:
            ArgumentsRefused: for more or fewer than the signal declares, or other names; no slot was called.
            Exception: the first one of a slot.
        """
        if named or len(values) != len(self.names or UNDECLARED):
            values = self._in_order(values, named)
        self.call(values)

    def _in_order(self, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        names = self.names or UNDECLARED
        left = names[len(values) :]
        missing = [name for name in left if name not in named] if self.names else []
        wrong = [name for name in named if name not in left]
        if len(values) > len(names) or missing or wrong:
            told = f"{len(values)} values" + "".join(f" and {name}" for name in named)
            raise ArgumentsRefused(f"the signal carries {', '.join(names)}, and was emitted with {told}")
        return (*values, *(named.get(name) for name in left))
