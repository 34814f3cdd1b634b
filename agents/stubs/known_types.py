"""What a stub may name: types that every reader has, each under its one full name.

The names are asked for by strangers, so only modules of `MODULES` are imported to look.
"""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Collection
from typing import cast

MODULES = {
    "array", "collections", "collections.abc", "concurrent.futures", "contextlib", "datetime", "decimal",
    "enum", "fractions", "io", "ipaddress", "logging", "numbers", "numpy", "numpy.random", "os", "pathlib",
    "queue", "random", "re", "string", "threading", "time", "types", "uuid", "zoneinfo",
}  # fmt: skip
"""Modules whose classes a stub may name; importing them has no effect that anybody would notice."""

_ABC = {
    "AsyncGenerator": 2, "AsyncIterable": 1, "AsyncIterator": 1, "Awaitable": 1, "Callable": 0,
    "Collection": 1, "Container": 1, "Coroutine": 3, "Generator": 3, "Hashable": 0, "ItemsView": 2,
    "Iterable": 1, "Iterator": 1, "KeysView": 1, "Mapping": 2, "MutableMapping": 2, "MutableSequence": 1,
    "MutableSet": 1, "Reversible": 1, "Sequence": 1, "Set": 1, "Sized": 0, "ValuesView": 1,
}  # fmt: skip

ARITY = {
    **{f"collections.abc.{name}": count for name, count in _ABC.items()},
    "builtins.dict": 2, "builtins.frozenset": 1, "builtins.list": 1, "builtins.set": 1, "builtins.type": 1,
    "collections.ChainMap": 2, "collections.Counter": 1, "collections.OrderedDict": 2,
    "collections.UserDict": 2, "collections.UserList": 1, "collections.defaultdict": 2,
    "collections.deque": 1, "concurrent.futures.Future": 1, "contextlib.AbstractContextManager": 1,
    "numpy.floating": 1, "numpy.inexact": 1, "numpy.integer": 1, "numpy.number": 1,
    "numpy.signedinteger": 1, "numpy.unsignedinteger": 1, "os.PathLike": 1, "queue.Queue": 1, "re.Match": 1,
    "re.Pattern": 1,
}  # fmt: skip
"""Generic classes and how many types they take."""

OF_TEXT = {"os.PathLike", "re.Match", "re.Pattern"}
"""Generic classes that take str or bytes and nothing else."""

STREAMS = frozenset(
    f"collections.abc.{name}" for name in _ABC if name.endswith(("Generator", "Iterator", "Iterable"))
)
"""Return types of generators; their first argument is the type of the items."""

ARRAYS = {"numpy.ndarray", "numpy.typing.NDArray"}

FORMS = frozenset(
    f"typing.{name}" for name in ("Union", "Optional", "Literal", "Annotated", "ClassVar", "Final")
)
"""Names of typing that mean nothing without brackets."""

HELPERS = "pzc.agents.stubs.typing_helpers"
"""Module that has the types of remote members."""

_PLAIN = {
    "Any", "BinaryIO", "LiteralString", "Never", "NoReturn", "SupportsBytes", "SupportsComplex",
    "SupportsFloat", "SupportsIndex", "SupportsInt", "TextIO",
}  # fmt: skip
_OLD_NAMES = {
    "AbstractSet": "collections.abc.Set", "ChainMap": "collections.ChainMap",
    "Counter": "collections.Counter", "ContextManager": "contextlib.AbstractContextManager",
    "DefaultDict": "collections.defaultdict", "Deque": "collections.deque", "Dict": "builtins.dict",
    "FrozenSet": "builtins.frozenset", "List": "builtins.list", "Match": "re.Match",
    "OrderedDict": "collections.OrderedDict", "Pattern": "re.Pattern", "Set": "builtins.set",
    "Text": "builtins.str", "Tuple": "builtins.tuple", "Type": "builtins.type",
}  # fmt: skip


def alias_of(module: str) -> str:
    """Name under which a stub imports a module; no member has it, for none begins with ``_``."""
    return "_remote" if module == HELPERS else f"_{module.replace('.', '_')}"


def canonical(dotted: str) -> str | None:
    """Full name of a type, such as ``builtins.list`` for ``typing.List``; None for an unknown one."""
    module, _, name = dotted.rpartition(".")
    if module in ("", "builtins"):
        public = not name.startswith("_") and isinstance(getattr(builtins, name, None), type)
        return f"builtins.{name}" if public else None
    if module in ("typing", "typing_extensions"):
        if name in _PLAIN or f"typing.{name}" in FORMS:
            return f"typing.{name}"
        return _OLD_NAMES.get(name) or (f"collections.abc.{name}" if name in _ABC else None)
    if dotted in ARITY or dotted in ARRAYS:
        return dotted
    return dotted if module in MODULES and _is_public_class(module, name) else None


def _is_public_class(module: str, name: str) -> bool:
    loaded = importlib.import_module(module)
    thing, public = vars(loaded).get(name), cast("Collection[str] | None", getattr(loaded, "__all__", None))
    if not isinstance(thing, type) or name.startswith("_"):
        return False
    return thing.__module__ == module if public is None else name in public


def is_scalar(known: str) -> bool:
    """True for numpy's types of array elements, by their full name."""
    import numpy as np

    thing = getattr(np, known.removeprefix("numpy."), None) if known.startswith("numpy.") else None
    return isinstance(thing, type) and issubclass(thing, np.generic)
