"""Tables straight from mailboxes: a spool, whose segments are removed once the commit log has their rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ..source.options import Options
from ..source.spool import Spool
from ..storage import Storage
from .batches import Batch, Settings
from .committer import claimed
from .interval_set import IntervalSet
from .run import Pace, Source, keep_up
from .work import Workers

FOLDER = ".spool"
"""Folder among the tables."""

QUICK = Pace(every=0.05)

_MANY = 10_000


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
    pace: Pace = QUICK,
    storage: Storage | None = None,
) -> None:
    """Keep tables up to date with the mailboxes of agents.

    Args:
        options: of the mailboxes, and the most rows of a batch.
        directory: of the tables; created when absent.
        settings: see `batches.Settings`.
        workers: that do the work.
        on_batch: called with each batch that is in the tables.
        pace: how it goes on; once: until what the mailboxes hold now is in the tables.
        storage: writes the tables.

    Raises:
        JournalError: as `run.run`.
        ConfigError: as `run.run`.
        PzcError: when a publisher refuses, or a mailbox is read by another process.
    """
    settings.rules.check()
    with claimed(directory) as root, Spool(root / FOLDER, options, options.protocol()) as spool:
        if pace.once:
            spool.settle(options.timeout)
        bounded = replace(pace, max_files=_MANY, max_rows=options.max_rows, settle=0.0)
        keep_up(SpoolSource(spool), root, settings, workers, on_batch, bounded, storage)


def mailbox_name(tables: str | Path) -> str:
    """Name of the mailboxes that belong to a folder of tables, unless somebody says another one."""
    digest = hashlib.sha256(os.fsencode(Path(tables).absolute())).hexdigest()
    return f"pipeline-{digest[:16]}"
