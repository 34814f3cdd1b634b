"""How deep and how large an untrusted content is when every shared part is unfolded, and equal hashes.

What is nested deeply overflows the C stack when it is freed; what is shared often takes for ever to print, to
compare and to encode; keys of equal hashes make a table quadratic. A few hundred bytes suffice for each.
"""

from __future__ import annotations

import collections
import decimal
import gc
from collections.abc import Collection, Iterable, Iterator
from typing import Any, cast

from .errors import DecodeError
from .lazily import is_array, np, numpy_kind

EQUAL_HASHES = 64
"""Keys of equal hashes in one table of an untrusted content."""

NESTING = 200
"""Containers inside each other in an untrusted content."""


ATOMS = frozenset({type(None), bool, int, float, str, bytes})
"""Types that hold nothing else."""

TABLES = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
_CONTAINERS = frozenset({list, tuple, set, frozenset, collections.deque, *TABLES})
_OBJECT = 128
_ARRAY = 1024
_LARGEST = 1 << 62
_WAYS = 12
"""Ways in which the parts of one circle may refer to each other beside the circle itself."""


class _Node:
    """A container: its parts, and what is known of them."""

    __slots__ = ("depth", "kids", "lowest", "order", "own", "parts", "size", "value")

    def __init__(self, value: object, order: int) -> None:
        self.value = value
        self.order = self.lowest = order
        self.own = 1
        self.parts: list[object] = []
        self.kids: Iterator[object] = iter(())
        self.depth = self.size = 0


class _Walk:
    """Finds circles as Tarjan does, without recursion."""

    def __init__(self, made: Iterable[object]) -> None:
        self.made = {id(each) for each in made}
        self.most = NESTING
        self.nodes: dict[int, _Node] = {}
        self.open: list[_Node] = []

    def enter(self, value: object) -> _Node:
        node = self.nodes[id(value)] = _Node(value, len(self.nodes))
        for part in _parts(value):
            kind = type(part)
            if kind in _CONTAINERS or id(part) in self.made or (is_array(part) and part.dtype.hasobject):
                node.parts.append(part)
            else:
                node.own += _weight(part)
        node.kids = iter(node.parts)
        self.open.append(node)
        return node

    def visit(self, root: object) -> _Node:
        """The node of a value, with depth and size."""
        known = self.nodes.get(id(root))
        if known is not None:
            return known
        path = [self.enter(root)]
        while path:
            node = path[-1]
            for kid in node.kids:
                other = self.nodes.get(id(kid))
                if other is None:
                    if len(path) >= self.most:
                        raise _too_deep(self.most)
                    path.append(self.enter(kid))
                    break
                if not other.depth:  # still open
                    node.lowest = min(node.lowest, other.order)
            else:
                path.pop()
                if path:
                    path[-1].lowest = min(path[-1].lowest, node.lowest)
                if node.lowest == node.order:
                    self.close(node)
        return self.nodes[id(root)]

    def close(self, first: _Node) -> None:
        """Judge a node, or all nodes of a circle."""
        members = [self.open.pop()]
        while members[-1] is not first:
            members.append(self.open.pop())
        inside = {member.order for member in members}
        deepest, size, ways = 0, 0, -len(members)
        for member in members:
            size += member.own
            for part in member.parts:
                other = self.nodes[id(part)]
                if other.order in inside:
                    ways += 1
                else:
                    deepest, size = max(deepest, other.depth), size + other.size
        if ways > _WAYS:
            raise DecodeError("the content refers to itself in too many ways")
        if deepest + len(members) > self.most:
            raise _too_deep(self.most)
        for member in members:
            member.depth = deepest + len(members)
            member.size = min(size << max(ways, 0), _LARGEST)


def check(content: object, made: Iterable[object], budget: int) -> None:
    """Refuse a content that is nested too deeply, or too large when what is shared is unfolded.

    Args:
        content: what was decoded.
        made: objects that were made for it and are to be looked into beside the builtin containers, and
            all that would be freed with it.
        budget: largest unfolded size, in parts.

    Raises:
        DecodeError: saying which.
    """
    walk = _Walk(made)
    for each in made:
        walk.visit(each)
    if type(content) not in ATOMS and walk.visit(content).size > budget:
        raise DecodeError("the content is far larger than its message when what is shared in it is unfolded")


def _too_deep(most: int) -> DecodeError:
    return DecodeError(f"the content is nested more than {most} deep")


def unlink(made: Iterable[Any]) -> None:
    """Take refused containers apart, so that none frees another within its own end.

    Objects of registered classes stay as they are: they may be older than the message, as members of an enum.
    """
    for each in made:
        kind = cast("type[object]", type(each))
        if is_array(each):
            each[...] = np.zeros((), each.dtype)
        elif kind in _CONTAINERS and kind not in (tuple, frozenset):
            each.clear()


class Hashes:
    """Counts the keys of tables by their hash."""

    __slots__ = ("_counted", "_known")

    def __init__(self) -> None:
        # By id of a table: the table itself, which keeps the id taken, and how often each hash is in it.
        self._known: dict[int, tuple[object, collections.Counter[int]]] = {}

    def check(self, keys: Iterable[object], table: Collection[object] = ()) -> None:
        """Refuse keys that are to be put into a table, or into a new one, when too many hashes are equal.

        Raises:
            DecodeError: naming the limit.
        """
        most, counted = EQUAL_HASHES, collections.Counter[int]()
        if table:
            _, counted = self._known.setdefault(id(table), (table, counted))
            if not counted:
                counted.update(map(hash, table))
        hashes = list(map(hash, keys))
        counted.update(hashes)
        if any(counted[each] > most for each in hashes):
            raise DecodeError(f"more than {most} keys of one table have the same hash")


def _parts(value: Any) -> Iterable[object]:
    kind = cast("type[object]", type(value))
    if kind in TABLES:
        return [*value, *value.values()]
    if kind in _CONTAINERS:
        return cast("Iterable[object]", value)
    if is_array(value):
        return value.reshape(-1).tolist()
    found: list[object] = [each for each in gc.get_referents(value) if not isinstance(each, type)]
    return found


def _weight(value: Any) -> int:
    """Roughly the work that one more look at a value takes, in parts."""
    if isinstance(value, (str, bytes, bytearray)):
        return 1 + (len(value) >> 4)
    if isinstance(value, float) or value is None:
        return 1
    if isinstance(value, int):
        return 1 + (value.bit_length() >> 3 if value.bit_length() > 64 else 0)
    if isinstance(value, decimal.Decimal):
        return _OBJECT + value.__sizeof__()
    if isinstance(value, memoryview) or numpy_kind(cast("type[object]", type(value))) in ("ndarray", "dtype"):
        return _ARRAY + (getattr(cast(Any, value), "nbytes", 0) >> 4)
    return _OBJECT
