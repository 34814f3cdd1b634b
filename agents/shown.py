"""What a notebook shows of an object: a heading and tables, as HTML in which every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

MOST = 200
"""Rows of a table; more are only counted."""


def html_page(title: object, *tables: str) -> str:
    """A heading, and the tables below it."""
    return f"<div><code>{_escaped(title)}</code>{''.join(tables)}</div>"


def first_line(text: object) -> str:
    """Of a documentation; empty without one."""
    return str(text or "").strip().partition("\n")[0]


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; nothing when it has no rows."""
    left = iter(rows)
    cells = [_row("td", each) for each in islice(left, MOST)]
    more = sum(1 for _ in left)
    tail = f"<caption>and {more} more</caption>" if more else ""
    return f"<table>{tail}{_row('th', columns)}{''.join(cells)}</table>" if cells else ""


def _row(kind: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{kind}>{_escaped(cell)}</{kind}>' for cell in cells)}</tr>"


def _escaped(value: object) -> str:
    from html import escape  # a module of a thousand names, which only notebooks need

    return escape(str(value))


def agent_page(self: Any) -> str:
    """``_repr_html_`` of an agent: what it publishes and what it reads, from its statistics."""
    told = self.statistics()
    topics: Mapping[str, Mapping[str, Any]] = told["topics"]
    published, read = ("published", "subscribers", "dropped"), ("publisher", "topic", "received", "dropped")
    return html_page(
        repr(self),
        html_table(("topic", *published), ([name, *map(row.get, published)] for name, row in topics.items())),
        html_table(("reads", *read[1:]), (list(map(row.get, read)) for row in told["subscriptions"])),
    )
