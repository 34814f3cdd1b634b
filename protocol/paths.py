"""Paths: where something is inside of what a server serves; in requests, commands, stubs and topics.

::

    step        as text      leads to
    "voltage"   .voltage     an attribute
    (0,)        [0]          an item of a sequence or mapping: ``('a',)`` is ``['a']``
    (1, 3, None)  [1:3]      a slice of a sequence
    Handle(id)  @3f2a...     what the server keeps for a client; only as the first step

On the wire a path is a list of these, with ``{"handle": id}`` for a handle. The empty path leads to what is
served. A name that begins with ``_`` is in no path.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from .errors import LocalProtocolError, MemberRefused, RemoteProtocolError
from .shown import shown

MAX_STEPS = 32
"""Steps of a path."""

MAX_TEXT = 1024
"""Characters of a path, and of a text in it."""


@dataclass(frozen=True, slots=True)
class Handle:
    """The first step of a path to what a server keeps for a client."""

    id: str


Step: TypeAlias = "str | tuple[Any, ...] | Handle"
Path: TypeAlias = tuple[Step, ...]

_KEYS = frozenset({type(None), bool, int, float, complex, str, bytes})
_is_handle = re.compile(r"[0-9a-f]{4,64}").fullmatch
_handle = re.compile(r"@([0-9a-f]{4,64})(?![^.\[])")
_piece = re.compile(
    r"\.?(?P<name>[^\W\d]\w*)|\[(?P<key>(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\]\['\"])*)\]"
)
_number = r"\s*(?:([+-]?\d{1,18})\s*)?"  # in which spaces have one place: else a mismatch takes minutes
_slice = re.compile(rf"{_number}:{_number}(?::{_number})?")


def check_name(name: object) -> str:
    """A name, when it can be that of a member.

    Raises:
        MemberRefused: when it is private or no name at all.
    """
    if not isinstance(name, str) or not name.isidentifier() or len(name) > MAX_TEXT:
        raise MemberRefused(f"{shown(name)} is not the name of a member")
    if name.startswith("_"):
        raise MemberRefused(f"{shown(name)} is private: members that begin with '_' are never served")
    return name


def is_key(key: object) -> bool:
    """True for a key that a path can hold: text, bytes, a number, a boolean, None, or a tuple of these."""
    if type(key) is tuple:
        parts = cast("tuple[object, ...]", key)
        return len(parts) <= MAX_STEPS and all(type(part) in _KEYS and is_key(part) for part in parts)
    return type(key) in _KEYS and (not isinstance(key, str | bytes) or len(key) <= MAX_TEXT)


def step_of(key: object) -> Step | None:
    """The step that ``[key]`` is; None for a key that a path cannot hold."""
    if isinstance(key, slice):
        bounds = cast("slice[Any, Any, Any]", key)
        parts = (bounds.start, bounds.stop, bounds.step)
        return parts if all(part is None or type(part) is int for part in parts) else None
    return (key,) if is_key(key) else None


def key_of(step: tuple[Any, ...]) -> Any:
    """What stands in the brackets of an item or slice."""
    return step[0] if len(step) == 1 else slice(*step)


def to_wire(path: Path) -> Sequence[Any]:
    """A path as every serializer can carry it."""
    if path and isinstance(path[0], Handle):
        return [{"handle": path[0].id}, *path[1:]]
    return path


def from_wire(steps: object) -> Path:
    """The path that `to_wire` wrote, as a peer says.

    Raises:
        RemoteProtocolError: when it is none.
        MemberRefused: for a name in it that is private or no name.
    """
    parts = cast("list[object]", steps) if isinstance(steps, list | tuple) else None
    if parts is None or len(parts) > MAX_STEPS:
        raise RemoteProtocolError(
            f"a path is a list of at most {MAX_STEPS} steps, not {shown(cast(object, steps))}"
        )
    path = tuple(_step(step, at) for at, step in enumerate(parts))
    if (length := len(text(path))) > MAX_TEXT:
        raise RemoteProtocolError(f"a path of {length} characters is too long: at most {MAX_TEXT}")
    return path


def _step(step: object, at: int) -> Step:
    if isinstance(step, str):
        return check_name(step)
    if isinstance(step, list | tuple):
        parts = tuple(cast("list[Any]", step))
        if len(parts) == 1:
            key = tuple(cast("list[Any]", parts[0])) if type(parts[0]) is list else parts[0]
            if is_key(key):
                return (key,)
        elif len(parts) == 3 and all(part is None or type(part) is int for part in parts):
            return parts
    elif isinstance(step, dict) and at == 0 and len(fields := cast("dict[str, object]", step)) == 1:
        handle = fields.get("handle")
        if isinstance(handle, str) and _is_handle(handle):
            return Handle(handle)
    raise RemoteProtocolError(f"{shown(cast(object, step), 60)} is no step of a path")


def text(path: Iterable[Step]) -> str:
    """A path as people write it: ``dac.channels[0].off``."""
    return "".join(map(_written, path)).removeprefix(".")


def _written(step: Step) -> str:
    if isinstance(step, str):
        return f".{step}"
    if isinstance(step, Handle):
        return f"@{step.id}"
    if len(step) == 1:
        return f"[{step[0]!r}]"
    start, stop, by = ("" if part is None else str(part) for part in step)
    return f"[{start}:{stop}:{by}]" if by else f"[{start}:{stop}]"


def names(path: Iterable[Step]) -> tuple[str, ...]:
    """The names in a path, without items: what ``expose`` and the marks of members speak of."""
    return tuple(step for step in path if isinstance(step, str))


def parse(written: str) -> Path:
    """The path of a text such as ``dac.channels[0].off`` or ``lockins['a'].x``.

    Raises:
        LocalProtocolError: saying from where on it cannot be read.
        MemberRefused: for a private name in it.
    """
    if not isinstance(cast("object", written), str):
        raise LocalProtocolError(f"{shown(written)} is no path: expected a text such as 'ch1.voltage'")
    if len(written) > MAX_TEXT:
        raise LocalProtocolError(f"a path of {len(written)} characters is too long: at most {MAX_TEXT}")
    handle = _handle.match(written)
    path: list[Step] = [] if handle is None else [Handle(handle[1])]
    at = 0 if handle is None else handle.end()
    while at < len(written):
        piece = _piece.match(written, at)
        if piece is None or (written[at] == ".") != bool(path and piece["name"]):
            raise LocalProtocolError(f"{shown(written)} is no path: cannot read {shown(written[at:], 40)}")
        path.append(check_name(piece["name"]) if piece["name"] else _bracketed(piece["key"], written))
        at = piece.end()
    if len(path) > MAX_STEPS:
        raise LocalProtocolError(f"{shown(written)} has more than {MAX_STEPS} steps")
    return tuple(path)


def _bracketed(inside: str, written: str) -> Step:
    parts = _slice.fullmatch(inside)
    if parts is not None:
        return tuple(None if part is None else int(part) for part in parts.groups())
    key: object = ...
    with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        key = ast.literal_eval(inside.strip())
    if not is_key(key):
        raise LocalProtocolError(
            f"{shown(written)}: [{shown(inside, 40)}] is no key; write a number, [1:3], or text in quotes"
        )
    return (key,)
