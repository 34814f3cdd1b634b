"""What a request says of where it acts and of what it carries; references among its arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, cast

from ...protocol.errors import OperationRefused, SerializeError, SerializerRefused
from ...protocol.paths import Path, text, to_wire
from ...protocol.values import PLAIN
from ..references import replaced

Convert = Callable[[object], object]

_GIVEN = ("args", "kwargs", "value")

_NESTED = 2
"""Containers inside each other in which references are looked for: the arguments, and those in them."""


class Substituted(ABC):
    """Of which something else is sent."""

    @abstractmethod
    def _proxy_sent(self) -> object:
        """What is sent for it; ConfigError when that is not known yet."""


def place_of(path: Path) -> dict[str, Any]:
    """Options of a request that works with what a path leads to."""
    if not path:
        return {}
    last = path[-1]
    if not isinstance(last, str):
        return {"on": to_wire(path)}
    return {"on": to_wire(path[:-1]), "name": last} if len(path) > 1 else {"name": last}


def call_of(path: Path, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Options of a request that calls a method of what a path leads to."""
    options = place_of(path)
    options["method"] = method
    if args:
        options["args"] = args
    if kwargs:
        options["kwargs"] = kwargs
    return options


def told_of(options: dict[str, Any]) -> str:
    """Where a request acts, in words: the path of a member, or what is served."""
    name = options.get("name")
    return text((*options.get("on", ()), *(() if name is None else (name,)))) or "what is served"


def not_called(name: str) -> OperationRefused:
    """The refusal of a signal that is called, as if that connected a slot."""
    return OperationRefused(
        f"{name!r} is a signal, which cannot be called; to have a slot called: {name}.connect(slot)"
    )


def explain(error: SerializeError | SerializerRefused, options: dict[str, Any]) -> None:
    """Say of what cannot be sent, or was refused in an answer, where its request acted."""
    error.args = (f"{told_of(options)}: {error}",)


def keeps_of(options: dict[str, Any]) -> list[object]:
    """What keeps at the server what the references in a request name."""
    found: list[object] = []
    if "refs" in options:
        replaced([options.get(name) for name in _GIVEN], lambda each: found.append(each.held), _NESTED + 1)
    return found


def is_plain(values: Collection[object]) -> bool:
    """True when no value holds anything but itself."""
    return PLAIN.issuperset(map(type, values))


def filled(options: dict[str, Any], convert: Convert) -> dict[str, Any]:
    """Options whose arguments or value may hold references, which are put as they are sent.

    Args:
        options: of a request; changed.
        convert: gives what is sent for a value, itself for most.
    """
    for name in _GIVEN:
        if name in options:
            given = options[name]
            told = _converted(given, convert, _NESTED)
            if told is not given:
                options[name], options["refs"] = told, True
    return options


def _converted(value: Any, convert: Convert, depth: int) -> Any:
    kind = cast("type[Any]", type(value))
    if kind is list or kind is tuple:
        if not depth or is_plain(value):
            return value
        made = [_converted(each, convert, depth - 1) for each in value]
        changed = any(new is not old for new, old in zip(made, value, strict=True))
        return (made if kind is list else tuple(made)) if changed else value
    if kind is dict:
        if not depth or is_plain(value.values()):
            return value
        made = {key: _converted(each, convert, depth - 1) for key, each in value.items()}
        return made if any(made[key] is not value[key] for key in value) else value
    return value if kind in PLAIN else convert(value)
