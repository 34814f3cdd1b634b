"""Annotations of a remote server as expressions for a stub: known types stay, all else becomes Any.

The texts come from a stranger. They are parsed and built anew out of types that every reader has, each under
its one full name; nothing of them is evaluated, and only modules of `MODULES` are imported to look.
"""

from __future__ import annotations

import ast
import builtins
import importlib
from collections.abc import Collection, Mapping
from typing import TypeAlias, cast

from .signatures import is_ellipsis, parse_expression

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

HELPERS = "pzc.agents.stub.typing_helpers"
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


Names: TypeAlias = Mapping[str, str]
"""What names in an annotation stand for, as the server tells it."""

_USUAL = {"np": "numpy", "npt": "numpy.typing"}
_DEEPEST = 8
_MOST_MEMBERS = 20


class Types:
    """Builds annotations, and gathers the modules that they need.

    Args:
        shadowed: names that mean something else where the annotations will stand.
        classes: names that classes of the server have there, by their full names.
    """

    def __init__(self, shadowed: Collection[str], classes: Mapping[str, str] | None = None) -> None:
        self._shadowed = shadowed
        self._classes = classes or {}
        self.modules: set[str] = set()

    def name(self, dotted: str) -> ast.expr:
        """Expression for a name with its module; builtins stand bare where nothing shadows them."""
        module, _, name = dotted.rpartition(".")
        if module == "builtins" and name not in self._shadowed:
            return ast.Name(name)
        self.modules.add(module)
        return ast.Attribute(ast.Name(alias_of(module)), name)

    def remote(self, full_name: object) -> ast.expr | None:
        """Class of the stub for one of the server; None for one that is not written."""
        name = self._classes.get(full_name) if isinstance(full_name, str) else None
        return None if name is None else ast.Name(name)

    def any(self) -> ast.expr:
        """Any."""
        return self.name("typing.Any")

    def generic(self, dotted: str, *args: ast.expr) -> ast.expr:
        """A generic type with its arguments."""
        return ast.Subscript(self.name(dotted), args[0] if len(args) == 1 else ast.Tuple(list(args)))

    def union(self, *members: ast.expr) -> ast.expr:
        """Union of types."""
        union = members[0]
        for member in members[1:]:
            union = ast.BinOp(union, ast.BitOr(), member)
        return union

    def read(self, tree: ast.expr | None, names: Names) -> ast.expr:
        """Annotation for one out of a server's text; Any for what no reader could resolve."""
        return self.any() if tree is None else self._tree(tree, names, 0)

    def stream(self, tree: ast.expr | None, names: Names) -> ast.expr:
        """Type of the items of a generator with this return annotation."""
        if not isinstance(tree, ast.Subscript) or self._known(tree.value, names) not in STREAMS:
            return self.any()
        args = _arguments(tree)
        return self._tree(args[0], names, 0) if args else self.any()

    def arguments(self, tree: ast.expr | None, names: Names, count: int) -> list[ast.expr]:
        """Types of the keys and values, or the items, of a collection; Any where its type does not tell."""
        if isinstance(tree, ast.Subscript):
            known, args = self._known(tree.value, names), _arguments(tree)
            if known is not None and ARITY.get(known) == count == len(args):
                return [self._tree(arg, names, 0) for arg in args]
        return [self.any() for _ in range(count)]

    def _text(self, text: object, names: Names, depth: int) -> ast.expr:
        tree = parse_expression(text)
        return self.any() if tree is None else self._tree(tree, names, depth)

    def _tree(self, node: ast.expr, names: Names, depth: int) -> ast.expr:
        if depth > _DEEPEST:
            return self.any()
        if isinstance(node, ast.Constant):
            return ast.Constant(None) if node.value is None else self._text(node.value, names, depth + 1)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._bare(node, names, depth)
        if isinstance(node, ast.BinOp):
            members = _members(node)
            return self.any() if members is None else self._union(members, names, depth)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, names, depth)
        return self.any()

    def _union(self, members: list[ast.expr], names: Names, depth: int) -> ast.expr:
        return self.union(*(self._tree(member, names, depth + 1) for member in members))

    def _bare(self, node: ast.expr, names: Names, depth: int) -> ast.expr:
        known = self._known(node, names)
        if known is None:
            alias = names.get(node.id) if isinstance(node, ast.Name) else None
            written = self.remote(_dotted(node)) or self.remote(alias)
            if written is not None:
                return written
            return self.any() if alias is None else self._text(alias, {}, depth + 1)
        if known in ARRAYS:
            return self.generic("numpy.typing.NDArray", self.any())
        if known == "builtins.tuple":
            return self.generic(known, self.any(), ast.Constant(...))
        if known == "collections.abc.Callable":
            return self.generic(known, ast.Constant(...), self.any())
        if known in FORMS:
            return self.any()
        anything = [self.any() for _ in range(ARITY.get(known, 0))]
        return self.generic(known, *anything) if anything else self.name(known)

    def _subscript(self, node: ast.Subscript, names: Names, depth: int) -> ast.expr:
        known, args = self._known(node.value, names), _arguments(node)
        if known is None or (not args and known != "builtins.tuple"):
            return self.any()
        if known.startswith("typing."):
            return self._form(known, args, names, depth)
        if known in ARRAYS:
            return self.generic("numpy.typing.NDArray", self._scalar(known, args, names))
        if known == "builtins.tuple":
            return self._tuple(args, names, depth)
        if known == "collections.abc.Callable":
            return self._callable(args, names, depth)
        if is_scalar(known):
            return self._bare(node.value, names, depth)
        if ARITY.get(known, 0) != len(args):
            return self.any()
        types = [self._tree(arg, names, depth + 1) for arg in args]
        plain = all(isinstance(each, ast.Name) and each.id in ("str", "bytes") for each in types)
        bare = all(isinstance(each, ast.Name | ast.Attribute) for each in types)
        if (known in OF_TEXT and not plain) or (known == "builtins.type" and not bare):
            return self._bare(node.value, names, depth)
        return self.generic(known, *types)

    def _form(self, known: str, args: list[ast.expr], names: Names, depth: int) -> ast.expr:
        form = known.removeprefix("typing.")
        if form in ("Annotated", "ClassVar", "Final"):
            return self._tree(args[0], names, depth + 1)
        if form == "Union" and len(args) <= _MOST_MEMBERS:
            return self._union(args, names, depth)
        if form == "Optional" and len(args) == 1:
            return self._union([args[0], ast.Constant(None)], names, depth)
        if form == "Literal" and all(map(_is_literal, args)):
            return self.generic(known, *args)
        return self.any()

    def _tuple(self, args: list[ast.expr], names: Names, depth: int) -> ast.expr:
        open_ended = len(args) == 2 and is_ellipsis(args[1])
        types = [self._tree(arg, names, depth + 1) for arg in (args[:1] if open_ended else args)]
        if open_ended:
            types.append(ast.Constant(...))
        return self.generic("builtins.tuple", *(types or [ast.Tuple([])]))

    def _callable(self, args: list[ast.expr], names: Names, depth: int) -> ast.expr:
        taken: ast.expr = ast.Constant(...)
        if len(args) != 2:
            return self.any()
        if isinstance(args[0], ast.List):
            taken = ast.List([self._tree(arg, names, depth + 1) for arg in args[0].elts])
        elif not is_ellipsis(args[0]):
            return self.any()
        return self.generic("collections.abc.Callable", taken, self._tree(args[1], names, depth + 1))

    def _scalar(self, known: str, args: list[ast.expr], names: Names) -> ast.expr:
        """Type of an array's elements, out of ``NDArray[S]`` or ``ndarray[shape, dtype[S]]``."""
        inner: ast.expr | None = args[0]
        if known == "numpy.ndarray":
            inner = None
            if len(args) == 2 and isinstance(args[1], ast.Subscript):
                inner = args[1].slice if self._known(args[1].value, names) == "numpy.dtype" else None
        scalar = None if inner is None else self._known(inner, names)
        if scalar is None or not is_scalar(scalar):
            return self.any()
        return self.generic(scalar, self.any()) if scalar in ARITY else self.name(scalar)

    def _known(self, node: ast.expr, names: Names) -> str | None:
        """Full name of the class or form that a node names, None when it is none of the known ones."""
        dotted = _dotted(node)
        if dotted is None:
            return None
        root, dot, rest = dotted.partition(".")
        stands_for = names.get(root, _USUAL.get(root))
        if isinstance(stands_for, str) and (known := canonical(stands_for + dot + rest)) is not None:
            return known
        if root in names and not dot:
            return None
        return canonical(dotted) or (None if dot else canonical(f"typing.{dotted}"))


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _arguments(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _members(node: ast.expr) -> list[ast.expr] | None:
    """Members of a union in order; None when it is no union, or too large for one."""
    members: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and len(members) < _MOST_MEMBERS:
        members.append(node.right)
        node = node.left
    return None if isinstance(node, ast.BinOp) else [node, *reversed(members)]


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return isinstance(node.operand, ast.Constant) and type(node.operand.value) is int
    return isinstance(node, ast.Constant) and (
        node.value is None or type(node.value) in (str, bytes, int, bool)
    )
