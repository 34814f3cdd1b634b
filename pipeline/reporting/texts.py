"""Tables and cells as text, for a terminal and for the report."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence

import numpy as np

from .. import missing

try:
    import pandas as pd
except ImportError as exc:
    raise missing("pandas") from exc


def format_table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> str:
    """A table for a terminal: columns aligned, numbers to the right, no line of its own at the end.

    Args:
        headers: one per column.
        rows: cells of any type; floats are shown with six significant digits, None as ``-``.
        title: a line above.
    """
    cells = [list(row) for row in rows]
    texts = [[show(cell) for cell in row] for row in cells]
    widths = [max(len(text) for text in column) for column in zip(headers, *texts, strict=True)]
    right = [bool(cells) and all(is_number(cell) for cell in column) for column in zip(*cells, strict=True)]
    right = right or [False] * len(headers)

    def line(parts: Sequence[str]) -> str:
        shown = (
            f"{part:>{w}}" if r else f"{part:<{w}}" for part, w, r in zip(parts, widths, right, strict=True)
        )
        return "  ".join(shown).rstrip()

    rule = "  ".join("─" * width for width in widths)
    return "\n".join([*([title] if title else []), line(headers), rule, *map(line, texts)])


def show(value: object) -> str:
    """One cell as text: floats with six significant digits, times to the second, None as ``-``."""
    if value is None or value is pd.NaT or value is pd.NA:
        return "-"
    if isinstance(value, float | np.floating):
        return "-" if math.isnan(value) else f"{value:.6g}"
    if isinstance(value, datetime.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    # Control characters from a network must not reach a terminal or a plot.
    return "".join(char if char.isprintable() else " " if char.isspace() else "�" for char in str(value))


def is_number(value: object) -> bool:
    """True for what stands to the right in a column: numbers, and None beside them."""
    return value is None or (isinstance(value, int | float | np.number) and not isinstance(value, bool))
