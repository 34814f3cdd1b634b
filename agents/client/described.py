"""About: what a server tells of something it serves, in text; see `pzc.agents.server.described`."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from ...protocol.contents import as_table
from ...protocol.shown import plain
from ..stub import declared

Entry = dict[str, Any]


class About(NamedTuple):
    """What is known of one path.

    Attributes:
        type: name of its class; empty when nobody told.
        doc: documentation.
        kind: as in a table of members.
        signature: of what can be called, as text.
        callable: it can be called, and has members besides.
        members: what is told of each, by name.
        types: classes of what is in it, by their full names, each with its members.
        items: ``mapping``, ``sequence``, or empty for what has no items.
    """

    type: str = ""
    doc: str = ""
    kind: str = ""
    signature: str = ""
    callable: bool = False
    members: dict[str, Entry] = {}  # noqa: RUF012 - never changed
    types: dict[str, Entry] = {}  # noqa: RUF012 - never changed
    items: str = ""

    def text(self) -> str:
        """Documentation of it and of its members, for ``help``."""
        parts = [self.doc.strip() or f"{self.type or 'Something'}, of which its server has no documentation."]
        for name, entry in sorted(self.members.items()):
            doc = str(entry.get("doc") or "").strip().replace("\n", "\n    ")
            head = f"{name}{entry.get('signature') or ''}"
            kinds = [] if entry.get("kind") == "method" else [_kind(entry)]
            said = ", ".join(filter(None, [*kinds, declared(entry)]))
            kind = f"  ({said})" if said else ""
            parts.append(f"{head}{kind}\n    {doc}" if doc else f"{head}{kind}")
        return "\n\n".join(parts)


def _kind(entry: Entry) -> str:
    type_ = str(entry.get("type") or "").rpartition(".")[2]
    read_only = ", read only" if entry.get("writable") is False else ""
    return f"{type_ or entry.get('kind', 'member')}{read_only}"


def read(told: object) -> About:
    """What a server answered to ``describe``; nothing is known from what cannot be used.

    Of a server that is not native see `compat.pizco_client`.
    """
    fields = entry_of(told)
    fields["members"], fields["types"] = _table(fields.get("members")), _table(fields.get("types"))
    for entry in fields["types"].values():
        entry["members"] = _table(entry.get("members"))
    return About(**{name: fields[name] for name in About._fields if name in fields})


_TEXTS = frozenset({"type", "doc", "kind", "signature", "items", "item"})
_TABLES = frozenset({"members", "types"})


def entry_of(told: object) -> Entry:
    """What is told of one thing, as far as it is usable: plain texts, flags, numbers, tables."""
    return {
        key: plain(value) if isinstance(value, str) else value
        for key, value in as_table(told).items()
        if isinstance(value, str if key in _TEXTS else dict if key in _TABLES else bool | str | float)
    }


def _table(told: object) -> dict[str, Entry]:
    return {
        plain(name): entry_of(cast("Entry", entry))
        for name, entry in as_table(told).items()
        if isinstance(name, str) and isinstance(entry, dict)  # pyright: ignore[reportUnnecessaryIsInstance]
    }
