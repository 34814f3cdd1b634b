"""Tables straight from mailboxes: a spool, whose segments are removed once the commit log has their rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..source.options import Options
from ..source.spool import Spool
from ..storage import Storage
from .batches import Batch, Settings
from .committer import claimed
from .run import Pace, keep_up, opened_tables
from .work import Workers

FOLDER = ".spool"
"""Folder among the tables."""

QUICK = Pace(every=0.05)

_MANY = 10_000


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
    with claimed(directory) as root, Spool(root / FOLDER, options) as spool:
        if pace.once:
            spool.settle(options.timeout)
        bounded = replace(pace, max_files=_MANY, max_rows=options.max_rows, settle=0.0)
        with opened_tables(root, settings, workers, storage) as committer:
            keep_up(spool.folder, committer, settings, on_batch, bounded, spool)


def mailbox_name(tables: str | Path) -> str:
    """Name of the mailboxes that belong to a folder of tables, unless somebody says another one."""
    digest = hashlib.sha256(os.fsencode(Path(tables).absolute())).hexdigest()
    return f"pipeline-{digest[:16]}"
