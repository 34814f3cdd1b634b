"""Members: the one table that says what of a served object a peer may touch.

::

    kind       what it is                                    a peer may
    method     callable attribute                            call
    signal     has connect, disconnect and emit              subscribe, emit
    items      mutable mapping or sequence attribute         get and set items, len, iterate
    property   descriptor on the class                       get, set
    value      any other attribute                           get, set

Names that begin with ``_`` are never served; ``expose`` narrows further. Classification looks at
the class and the instance dictionary and never runs a property: reading one may move hardware.

What is not there cannot be set. There is what the class, its bases, slots or the instance have, what the
object names in ``dir``, and, when its class has a ``__getattr__`` or ``__getattribute__`` of its own, what
that answers to. A ``__setattr__`` alone says nothing of which names there are.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import logging
import sys
from collections.abc import Callable, Collection, Mapping, MutableMapping, MutableSequence
from typing import Any

from ...protocol.errors import MemberRefused
from ...protocol.values import TRAVELLING
from ..messages import shown
from ..stubs.described import describe

logger = logging.getLogger("pzc.members")

_METHOD_MAKERS = (staticmethod, classmethod, functools.partialmethod, functools.singledispatchmethod)

ITEM_METHODS: Mapping[str, Callable[..., Any]] = {
    "__getitem__": lambda items, key: items[key],
    "__setitem__": lambda items, key, value: items.__setitem__(key, value),
    "__delitem__": lambda items, key: items.__delitem__(key),
    "__len__": len,
    "__contains__": lambda items, key: key in items,
    "__iter__": list,
    "keys": lambda items: list(items.keys()),
    "values": lambda items: list(items.values()),
    "items": lambda items: list(items.items()),
    "get": lambda items, key, default=None: items.get(key, default),
    "copy": lambda items: items.copy(),
}
"""What a peer may do with an ``items`` member, and nothing else."""


_MISSING = object()
_SHOWN = 5  # names in an error

_MAX_USABLE = 1000
"""Names that are remembered as usable."""


def kind_of(value: object) -> str:
    """Kind of an attribute's value; see the table."""
    if type(value) in TRAVELLING:  # whose attributes are somebody else's
        return "value"
    if all(callable(getattr(value, name, None)) for name in ("connect", "disconnect", "emit")):
        return "signal"
    if isinstance(value, MutableMapping | MutableSequence) and not isinstance(value, bytearray):
        return "items"
    return "method" if callable(value) else "value"


_SEQUENCES = frozenset({tuple, list})


class Members:
    """Access to a served object by name.

    Args:
        target: the served object.
        expose: names that are served; None serves every public one.
        is_remote: whether an attribute is held remotely instead of being sent by value; None for what its
            kind says.
    """

    def __init__(
        self,
        target: object,
        expose: Collection[str] | None = None,
        is_remote: Callable[[object], bool] | None = None,
    ) -> None:
        self._target = target
        self._is_remote = is_remote
        self._expose = None if expose is None else frozenset(expose)
        self._usable: dict[str, str] = {}

    def check(self, name: object) -> str:
        """The name, when a peer may use it.

        Raises:
            MemberRefused: when it is private, not exposed, or no name at all.
        """
        if type(name) is str and (known := self._usable.get(name)) is not None:
            return known
        if not isinstance(name, str) or not name.isidentifier():
            raise MemberRefused(f"{shown(name)} is not the name of a member")
        if name.startswith("_"):
            raise MemberRefused(f"{name!r} is private: members that begin with '_' are never served")
        if self._expose is not None and name not in self._expose:
            raise MemberRefused(f"{name!r} is not exposed by this server")
        if len(self._usable) < _MAX_USABLE:
            name = sys.intern(name)  # attributes of an interned name are found much faster
            self._usable[name] = name
        return name

    def kind(self, name: str) -> str:
        """Kind of a member, without running a property.

        Raises:
            AttributeError: when there is no such member.
        """
        return self._kind_of(name, inspect.getattr_static(self._target, name))

    def _kind_of(self, name: str, static: object) -> str:
        if isinstance(static, _METHOD_MAKERS):
            return "method"
        computed = inspect.isdatadescriptor(static) or (
            hasattr(type(static), "__get__") and not callable(static)
        )
        if computed and not inspect.ismemberdescriptor(static):
            return "property"
        return kind_of(getattr(self._target, name))

    def get(self, name: object) -> Any:
        """Value of a member; MemberRefused or AttributeError when there is none for this peer."""
        return getattr(self._target, self.check(name))

    def value(self, name: object) -> Any:
        """Value of a member that is to leave this process.

        Raises:
            MemberRefused: as `check`, and for a method or signal: a pickled method carries the whole
                object, private attributes included.
        """
        value = self.get(name)
        kind = kind_of(value)
        if kind in ("method", "signal"):
            raise MemberRefused(f"{name!r} is a {kind} and is not sent by value")
        return value

    def set(self, name: object, value: object) -> None:
        """Set a member.

        Raises:
            MemberRefused: as `check`, for a method or signal, which a peer may not replace, and for what is
                not there; it names what is nearest.
        """
        checked = self.check(name)
        kind = self._kind_to_set(checked)
        if kind in ("method", "signal"):
            raise MemberRefused(f"{checked!r} is a {kind} and cannot be set")
        setattr(self._target, checked, value)

    def _kind_to_set(self, name: str) -> str:
        static = inspect.getattr_static(self._target, name, _MISSING)
        if static is not _MISSING:
            try:
                return self._kind_of(name, static)
            except AttributeError:  # a slot that is empty
                return "value"
        value = getattr(self._target, name, _MISSING) if _is_dynamic(type(self._target)) else _MISSING
        if value is not _MISSING:
            return kind_of(value)
        if name in dir(self._target):
            return "value"
        names = self.names()
        near = difflib.get_close_matches(name, names, n=3)
        has = f"it has {', '.join(names[:_SHOWN]) or 'none'}"
        told = f"did you mean {' or '.join(near)}?" if near else has
        raise MemberRefused(
            f"{name!r} cannot be set: {type(self._target).__name__} has no such member; {told}"
        )

    def run(self, name: object, operation: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method, or work on an ``items`` member or signal.

        Raises:
            MemberRefused: as `check`, and for an operation that the kind does not allow.
            TypeError: for arguments that are no list and table.
        """
        known = self._usable.get(name) if type(name) is str else None
        attribute = getattr(self._target, known or self.check(name))
        if type(args) not in _SEQUENCES or type(kwargs) is not dict:  # a range would be unfolded
            raise TypeError(f"a call has a list and a table of arguments, not {shown((args, kwargs))}")
        if operation == "__call__" and callable(attribute):
            return attribute(*args, **kwargs)
        kind = kind_of(attribute)
        if operation == "emit" and kind == "signal":
            return attribute.emit(*args, **kwargs)
        if isinstance(operation, str) and operation in ITEM_METHODS and _has_items(attribute):
            return ITEM_METHODS[operation](attribute, *args, **kwargs)
        raise MemberRefused(f"{name!r} is a {kind} and does not allow {shown(operation, 60)}")

    def names(self) -> list[str]:
        """Served names in alphabetical order."""
        public = [name for name in dir(self._target) if not name.startswith("_")]
        return [name for name in public if self._expose is None or name in self._expose]

    def signals(self) -> dict[str, Any]:
        """Served signals by name."""
        kinds = {name: self._kind_or_none(name) for name in self.names()}
        return {name: getattr(self._target, name) for name, kind in kinds.items() if kind == "signal"}

    def _kind_or_none(self, name: str) -> str | None:
        try:
            return self.kind(name)
        except Exception as exc:  # a member that cannot be looked at must not hide the others
            logger.debug("member %s cannot be classified: %r", name, exc)
            return None

    def table(self) -> dict[str, dict[str, Any]]:
        """What there is to tell of every served member, in text; see `described`."""
        found = {name: self._kind_or_none(name) for name in self.names()}
        return {
            name: self._describe(name, self._told(name, kind))
            for name, kind in found.items()
            if kind is not None
        }

    def _told(self, name: str, kind: str) -> str:
        """A kind as proxies are told it: ``remote`` is not asked for its value, ``value`` always is."""
        if self._is_remote is None or kind not in ("items", "value"):
            return kind
        if self._is_remote(getattr(self._target, name)):
            return "remote" if kind == "value" else kind
        return "value"

    def _describe(self, name: str, kind: str) -> dict[str, Any]:
        try:
            return describe(self._target, name, kind)
        except Exception as exc:  # a member that cannot be described is still there
            logger.debug("member %s cannot be described: %r", name, exc)
            return {"kind": kind}


def _is_dynamic(cls: type) -> bool:
    own = cls.__getattribute__ is not object.__getattribute__
    return own or hasattr(cls, "__getattr__")


def _has_items(value: object) -> bool:
    return hasattr(type(value), "__getitem__") and not isinstance(value, type)


def options_of(options: object) -> dict[str, Any]:
    """Options of a Proxy-Server message.

    Raises:
        MemberRefused: when they are no mapping.
    """
    if not isinstance(options, dict):
        raise MemberRefused(f"options must be a mapping, not {type(options).__name__}")
    return options
