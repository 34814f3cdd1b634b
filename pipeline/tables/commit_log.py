"""The file of the commit log: which batches are in the tables, and what these hold after the last one."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from ...protocol.errors import JournalError
from ..forms import check_form
from .quantile_sketch import Figures
from .summary import Cell, Damage

COMMIT_LOG = "pipeline.ledger"
"""File among the tables."""

_FORMAT = 1


class Series(msgspec.Struct, array_like=True):
    """One publisher, epoch and topic: what was seen of it.

    Attributes:
        name: of the publisher.
        runs: sequence numbers as ranges.
        since: first receipt, µs since 1970.
    """

    name: str | None
    runs: list[int]
    since: int


class Topic(msgspec.Struct, array_like=True):
    """One publisher and topic: figures of everything that was stored."""

    name: str | None = None
    count: int = 0
    timed: int = 0
    first_sent: int | None = None
    last_sent: int | None = None
    late: int = 0
    duplicates: int = 0
    ages: Figures = msgspec.field(default_factory=Figures)
    values: Figures = msgspec.field(default_factory=Figures)


class Window(msgspec.Struct, array_like=True):
    """One publisher, topic and window that may still grow."""

    name: str | None
    cell: Cell
    newest: int


class _Form(msgspec.Struct):
    form: object = None


class _Runs(msgspec.Struct):
    runs: dict[str, int] = {}


class Content(msgspec.Struct):
    """What the file holds; see `state.State`."""

    form: int = _FORMAT
    query: str = ""
    batch: int = -1
    runs: dict[str, int] = {}
    offsets: dict[str, list[int]] = {}
    series: list[tuple[str, int | None, str, Series]] = []
    topics: list[tuple[str, str, Topic]] = []
    windows: list[tuple[str, str, int, Window]] = []
    heard: dict[str, int] = {}
    closed: dict[str, int] = {}
    damaged: list[Damage] = []
    width: int = 0
    too_late: int = 0
    upto: list[tuple[str, int | None, str, int]] = []
    ids: bytes = b""


_Known = TypeVar("_Known", _Runs, Content)


def committed(folder: Path) -> dict[str, int] | None:
    """`State.runs` of a folder of tables; None without a commit log. Errors as `State.read`."""
    found = read_file(folder / COMMIT_LOG, _Runs)
    return None if found is None else found.runs


def read_file(path: Path, kind: type[_Known]) -> _Known | None:
    """What is in the file, None when there is none.

    Raises:
        JournalError: when it cannot be read, or is of a newer form; says what to do.
    """
    try:
        content = path.read_bytes()
        form = msgspec.msgpack.decode(content, type=_Form).form
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as exc:
        raise _unreadable(path, exc) from exc
    check_form(path, form, _FORMAT)
    try:
        return msgspec.msgpack.decode(content, type=kind)
    except msgspec.MsgspecError as exc:
        raise _unreadable(path, exc) from exc


def _unreadable(path: Path, error: Exception) -> JournalError:
    return JournalError(f"{path} cannot be read: {error}; remove it, and the next run counts what is stored")
