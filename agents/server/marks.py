"""Marks: what is said of the methods of a served class; and a member, as all that decides knows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ...protocol.errors import ConfigError
from ...protocol.paths import Path

F = TypeVar("F", bound=Callable[..., Any])
P = TypeVar("P", bound=Callable[..., Any] | property)


class Marks(NamedTuple):
    """What is said of one method.

    Attributes:
        urgent: it runs beside whatever runs, at once, for anybody who may call it.
        reading: observers may call it, as it changes nothing.
        on_cancel: method of the same object that is called when a call of this one was cancelled.
        idempotent: it may run twice without harm.
        concurrent: it may run beside what runs, in its turn among those that may.
    """

    urgent: bool = False
    reading: bool = False
    on_cancel: str | None = None
    idempotent: bool = False
    concurrent: bool = False


NONE = Marks()
_MARKS = "_pzc_marks"


def marks_of(function: object) -> Marks:
    """What the author of a method said of it."""
    try:
        found = getattr(function, _MARKS, NONE)
    except Exception:  # it cannot be asked for anything
        return NONE
    return found if type(found) is Marks else NONE


def given_of(marks: Marks) -> dict[str, Any]:
    """Marks by name, without those that nobody gave."""
    return {name: given for name, given in marks._asdict().items() if given}


def _mark(function: F, **said: Any) -> F:
    try:
        setattr(function, _MARKS, marks_of(function)._replace(**said))
    except AttributeError:
        raise ConfigError(f"{function!r:.80} cannot be marked: only methods are, not properties") from None
    return function


def idempotent(function: F) -> F:
    """Mark a served method that may run twice without harm, such as one that only reads.

    A call of it whose reply was lost is sent again, with growing pauses, until its timeout; calls of
    other methods are sent at most once.
    """
    return _mark(function, idempotent=True)


def urgent(function: F) -> F:
    """Mark a served method that stops something, such as ``off``: it never waits for its turn.

    It runs at once, in a thread of its own, beside whatever runs, and whoever holds the lock. So it must be
    safe beside every other method: set a flag, or use an interface that the driver does not use meanwhile.
    """
    return _mark(function, urgent=True)


def reading(function: F) -> F:
    """Mark a served method that changes nothing: keys of role observer may call it, too."""
    return _mark(function, reading=True)


def concurrent(function: P) -> P:
    """Mark a served method or property that may run beside a running call, such as ``position``.

    It runs in another thread than the call, so it must be safe beside every other method. Unlike an urgent
    one it respects the lock. Setting such a property takes its turn, as does what a batch asks for, and with
    ``thread_affine`` all of it.
    """
    getter: Any = getattr(function, "fget", function)
    _mark(getter, concurrent=True)
    return function


def on_cancel(method: str) -> Callable[[F], F]:
    """Mark a served method that must not just be left: when a call was cancelled, another method is called.

    A call is cancelled when its caller gives it up by Ctrl-C, by a timeout or by `Future.cancel`, closes its
    proxy or dies. If the other method is urgent, it is called at once, while the call still runs; else when
    the call has ended. It is called once.

    Args:
        method: name of a method of the same object, which takes no arguments, such as ``"off"``.

    Raises:
        ConfigError: for what is no public name.
    """
    if not isinstance(method, str) or not method.isidentifier() or method.startswith("_"):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"on_cancel takes the name of a public method, such as 'off', not {method!r}")
    return lambda function: _mark(function, on_cancel=method)


class Member(NamedTuple):
    """What a request is about.

    Attributes:
        text: path as people write it, such as ``ch1.voltage``; empty for all that is served.
        urgent: calls of it run beside whatever runs, lock or not.
        reading: observers may call it.
        on_cancel: method of the same object that is called when a call of it was cancelled.
        concurrent: getting and calling it has a lane of its own.
        lane: number of the lane in which it runs.
        path: to it; None for what is no path.
        narrowed: only some of its members are served, and nothing else of it.
        sure: the marks are those of what is there; otherwise what is there is found in its turn only.
        settled: nothing is left to be judged in its turn.
    """

    text: str
    urgent: bool = False
    reading: bool = False
    on_cancel: str | None = None
    concurrent: bool = False
    lane: int = 0
    path: Path | None = None
    narrowed: bool = False
    sure: bool = True
    settled: bool = False


NOTHING = Member("", path=())
"""The whole of what is served, as far as nothing is said of it."""
