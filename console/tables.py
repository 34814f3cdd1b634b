"""Tables for people: as wide as the terminal, in colours where there is one.

::

    output              rows are shown
    no terminal         one line each, however wide, without colours
    wide enough         one line each
    too narrow          without empty columns, and without those that can be spared as far as that helps,
                        named in a last line; the last one folded, if that leaves it `LEAST` characters;
                        else a block each, one line per column that is not empty
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import TYPE_CHECKING

from ..protocol.shown import plain
from .output import columns, write

if TYPE_CHECKING:
    from rich.text import Text

GAP = 2
LEAST = 24
"""Characters of a last column that is folded, at least."""

STYLES = {
    "running": "green", "ok": "green", "alive": "green", "waiting": "yellow", "warning": "yellow",
    "failed": "bold red", "lost": "bold red", "stopped": "dim", "skipped": "dim",
}  # fmt: skip
"""Colours of cells that are such a word."""


def write_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Iterable[int] = (),
    spare: Sequence[str] = (),
    piped: int | None = None,
) -> None:
    """Write rows under their headings; errors as `write`.

    Args:
        headings: one per column.
        rows: cells as text.
        numbers: columns that stand to the right.
        spare: headings of columns that are left out where there is no room, the first one first.
        piped: characters of a line where the output is no terminal; None for any number.
    """
    width = columns()
    for line in table_lines(headings, rows, numbers, spare, width=width or piped, coloured=width is not None):
        write(line)


def table_lines(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Iterable[int] = (),
    spare: Sequence[str] = (),
    *,
    width: int | None = None,
    coloured: bool = False,
) -> list[str]:
    """As `write_table`: lines for an output of so many characters, None for any number."""
    table = [[plain(cell, keep="") for cell in row] for row in rows]
    right = [number in set(numbers) for number in range(len(headings))]
    kept = filled = [True] * len(headings)
    if table and width is not None and _needed(headings, table) > width:
        kept = filled = [any(column) for column in zip(*table, strict=True)]
        for name in ("", *spare):
            kept = [each and heading != name for each, heading in zip(kept, headings, strict=True)]
            if _fits(*_chosen(headings, table, kept), width):
                break
        else:
            return _blocks(*_chosen(headings, table, filled), width, coloured)
    left_out = [name for name, each, had in zip(headings, kept, filled, strict=True) if had and not each]
    headings, table = _chosen(headings, table, kept)
    needed = _needed(headings, table)
    lines = _grid(headings, table, list(compress(right, kept)), min(width or needed, needed), coloured)
    return [*lines, *_lines(_note(left_out), width or needed, coloured)] if left_out else lines


def mark(word: str, width: int) -> str:
    """A word such as ``ok`` or ``failed``, padded, in its colour where there are any."""
    if columns() is None:
        return f"{word:<{width}}"
    return _lines(_cell(word), width, coloured=True)[0] + " " * (width - len(word))


def _chosen(
    headings: Sequence[str], table: list[list[str]], kept: list[bool]
) -> tuple[list[str], list[list[str]]]:
    return list(compress(headings, kept)), [list(compress(row, kept)) for row in table]


def _fits(headings: Sequence[str], table: list[list[str]], width: int) -> bool:
    """Whether rows are a line each when the last column may be folded."""
    last = _widths(headings, table)[-1]
    return last - max(0, _needed(headings, table) - width) >= min(last, LEAST)


def _needed(headings: Sequence[str], table: list[list[str]]) -> int:
    return sum(_widths(headings, table)) + GAP * (len(headings) - 1)


def _widths(headings: Sequence[str], table: list[list[str]]) -> list[int]:
    return [max(map(_width, column)) for column in zip(headings, *table, strict=True)]


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _grid(
    headings: Sequence[str], rows: list[list[str]], right: list[bool], width: int, coloured: bool
) -> list[str]:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for number, (heading, is_number) in enumerate(zip(headings, right, strict=True)):
        last = number == len(headings) - 1
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=not last, overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    return _lines(table, width, coloured)


def _blocks(headings: Sequence[str], rows: list[list[str]], width: int, coloured: bool) -> list[str]:
    """Each row with a line per column; what identifies it, the first, begins on the left."""
    from rich.table import Table

    lines: list[str] = []
    longest = max(map(len, headings))
    for row in rows:
        block = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False)
        block.add_column(no_wrap=True, style="bold", min_width=longest)
        block.add_column(overflow="fold")
        for heading, cell in zip(headings, row, strict=True):
            if cell:
                block.add_row(heading, _cell(cell))
        lines += [*([""] if lines else []), *_lines(block, width, coloured)]
    return lines


def _note(left_out: list[str]) -> Text:
    from rich.text import Text

    return Text(f"no room for {', '.join(left_out)}", "dim")


def _cell(text: str) -> Text:
    from rich.text import Text

    return Text(text, STYLES.get(text, ""))


def _lines(table: object, width: int, coloured: bool) -> list[str]:
    from rich.console import Console

    console = Console(
        file=io.StringIO(), width=width, force_terminal=coloured, legacy_windows=False, highlight=False
    )
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]
