"""Polled members: what the value of one is, and which members have none.

::

    member                                        its value
    attribute, property, item                     what it holds, when that is a value
    object that stays here, such as a parameter   what its ``get()`` returns
    method without arguments                      what it returns
    anything else                                 none: refused when the object is served
"""

from __future__ import annotations

import inspect
import logging
from typing import Any

from ...protocol import paths
from ...protocol.errors import ConfigError, MemberRefused, SerializeError
from ...protocol.paths import Path
from ...protocol.shown import shown
from ...protocol.values import PLAIN, first_reference
from . import members
from .answers import by_value
from .tree import Tree

logger = logging.getLogger("pzc.topics")


def read(tree: Tree, path: Path) -> Any:
    """Read a polled member, in its lane.

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
    except (AttributeError, LookupError) as exc:
        if (why := _missing(tree, path)) is not None:
            raise ConfigError(f"poll names {shown(written)}: {why}") from exc
    except (Exception, SystemExit) as exc:  # published as an error until the instrument answers
        logger.info("%s cannot be read yet: %r", written, exc)


def _missing(tree: Tree, path: Path) -> Exception | None:
    """The error of the first step that is missing; None when a member that is there raised."""
    for end, step in enumerate(path):
        owner = tree.find(path[:end], _no_handle)
        try:
            tree.find(path[: end + 1], _no_handle)
        except (AttributeError, LookupError) as exc:
            if not isinstance(step, str):
                return exc
            is_there = inspect.getattr_static(owner, step, members.MISSING) is not members.MISSING
            return None if is_there else members.missing(owner, step, "")
    return None
