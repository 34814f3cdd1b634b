"""The ledger of version 0.1, in place of a commit log: which files count; what they hold is counted anew."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...protocol.errors import JournalError
from ..schema import check_form, form_of
from ..storage import Storage

NAME = "pipeline.ledger"
"""File among the tables."""

REMAKING = ".remaking"
"""Marker among the tables: days were being replaced, and the ledger does not tell how far that came."""

_CHECKPOINTS = (".checkpoint-journal", ".checkpoint-mailboxes")
_FORM = 1
_FILE = re.compile(r"(?P<run>[0-9a-f]{8})-(?P<batch>\d{9})(?:-\d{5})?\.parquet")


class _Runs(msgspec.Struct):
    runs: dict[str, int] = {}


def done_runs(root: Path) -> dict[str, int] | None:
    """The last batch of each run that is done; None where that is not known.

    Raises:
        JournalError: when it cannot be read, or is of a newer form; says what to do.
    """
    path = root / NAME
    if (root / REMAKING).exists():
        return None
    try:
        content = path.read_bytes()
        form = form_of(content)
        runs = msgspec.msgpack.decode(content, type=_Runs).runs if form == _FORM else {}
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as exc:
        reason = f"{exc}; remove it, and the next run counts what is stored"
        raise JournalError(f"{path} cannot be read: {reason}") from exc
    check_form(path, form, _FORM)
    return runs


def is_done(path: Path, runs: Mapping[str, int] | None) -> bool:
    """Whether a file of a table is one of a batch that is done, or of no batch."""
    found = _FILE.fullmatch(path.name)
    return found is None or runs is None or int(found["batch"]) <= runs.get(found["run"], -1)


def remove(root: Path, storage: Storage) -> None:
    """A commit log stands in its place now; and Spark keeps no checkpoint among the tables any more."""
    for name in (NAME, REMAKING):
        storage.remove(root / name)
    for name in _CHECKPOINTS:
        shutil.rmtree(root / name, ignore_errors=True)
