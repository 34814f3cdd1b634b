"""Tables straight from mailboxes: a spool, whose segments are removed once the commit log has their rows."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from ..source.options import Options
from ..source.spool import Spool
from ..storage import Storage
from .batches import Batch, Settings
from .committer import claimed
from .interval_set import IntervalSet
from .run import Source, keep_up
from .work import Workers

FOLDER = ".spool"
"""Folder among the tables."""

_MANY = 10_000
_LOOK = 0.05


class SpoolSource(Source):
    """The spool of a folder of tables.

    Args:
        spool: that fills.
    """

    stays = False

    def __init__(self, spool: Spool) -> None:
        super().__init__(spool.folder)
        self._spool = spool

    def check(self) -> None:
        """Errors as `Spool.check`."""
        self._spool.check()

    def stored(self, done: Mapping[str, IntervalSet]) -> None:
        """Remove the segments whose rows are in the tables."""
        nothing = IntervalSet()
        self._spool.remove(lambda name, first, last: done.get(name, nothing).covers(first, last))


def follow(
    options: Options,
    directory: str | Path,
    settings: Settings,
    workers: Workers,
    on_batch: Callable[[Batch], object],
    *,
    every: float = _LOOK,
    once: bool = False,
    stop: threading.Event | None = None,
    storage: Storage | None = None,
    keep_days: int | None = None,
) -> None:
    """Keep tables up to date with the mailboxes of agents.

    Args:
        options: of the mailboxes, and the most rows of a batch.
        directory: of the tables; created when absent.
        settings: see `batches.Settings`.
        workers: that do the work.
        on_batch: called with each batch that is in the tables.
        every: seconds between two looks for something new.
        once: end when what the mailboxes hold now is in the tables.
        stop: ends it, behind the batch that it is at.
        storage: writes the tables.
        keep_days: as `run.run`.

    Raises:
        JournalError: as `run.run`.
        ConfigError: as `run.run`.
        PzcError: when a publisher refuses, or a mailbox is read by another process.
    """
    settings.rules.check()
    with claimed(directory) as root, Spool(root / FOLDER, options, options.protocol()) as spool:
        if once:
            spool.settle(options.timeout)
        keep_up(
            SpoolSource(spool), root, settings, workers, on_batch, every=every, once=once, max_files=_MANY,
            max_rows=options.max_rows, stop=stop, settle=0.0, storage=storage, keep_days=keep_days,
        )  # fmt: skip


def mailbox_name(tables: str | Path) -> str:
    """Name of the mailboxes that belong to a folder of tables, unless somebody says another one."""
    digest = hashlib.sha256(os.fsencode(Path(tables).absolute())).hexdigest()
    return f"pipeline-{digest[:16]}"
