"""References: what stands in the arguments of a call for an object that stays at its server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from ..protocol import kinds, paths
from ..protocol.errors import DecodeError, PzcError
from ..protocol.paths import Path

_MAX_ID = 64


@dataclass(frozen=True)
class Reference:
    """Something at a server, as it travels in the arguments of a call.

    Attributes:
        agent_id: of the server.
        path: steps from the served object, or from a handle; empty for the served object itself.
        held: what keeps it there as long as this is to be sent; it does not travel.
    """

    agent_id: str
    path: Path = ()
    held: object = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Callable[[str], Reference], tuple[str]]:
        return reference, (write(self),)


def write(given: Reference) -> str:
    """A reference as text."""
    return f"{given.agent_id} {paths.text(given.path)}"


def reference(text: str) -> Reference:
    """The reference that a text of `write` is.

    Raises:
        DecodeError: when it is none.
    """
    agent_id, space, path = text.partition(" ")
    if not space or not agent_id.isalnum() or len(agent_id) > _MAX_ID:
        raise DecodeError("a reference came without the server that it belongs to")
    try:
        return Reference(agent_id, paths.parse(path))
    except PzcError as exc:
        raise DecodeError(f"a reference came with a path that cannot be read: {exc}") from exc


def replaced(content: Any, find: Callable[[Reference], Any], levels: int = 2) -> Any:
    """Arguments with what ``find`` gives in the place of each reference.

    Args:
        content: a reference, or a list, tuple or dict with some; anything else stays as it is.
        find: gives the object that a reference stands for.
        levels: how many lists, tuples or dicts inside one another are looked through.
    """
    if type(content) is Reference:
        return find(content)
    if not levels:
        return content
    if type(content) in (list, tuple):
        items = [replaced(each, find, levels - 1) for each in cast("list[Any]", content)]
        return items if type(content) is list else tuple(items)
    if type(content) is dict:
        table = cast("dict[Any, Any]", content)
        return {key: replaced(each, find, levels - 1) for key, each in table.items()}
    return content


kinds.add(Reference, "reference", write, reference)
