"""Tables of what agents publish: a recorder, and a run over its journal, in one process."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...delivery.policies import Policy
from ...protocol.errors import SubscriptionClosed
from ..recording.recorder import Recorder
from ..storage import Storage
from .batches import Batch, Settings
from .committer import claimed
from .run import Pace, keep_up, opened_tables
from .work import Workers

FOLDER = ".journal"
"""Folder among the tables."""

AGE = 0.2
"""Seconds for which a row waits for others of its segment."""

DRAIN = 30.0
"""Seconds for what the mailboxes hold to come, when a run is to end then."""


def follow(
    sources: Sequence[tuple[str, str]],
    journal: str | Path,
    directory: str | Path,
    policy: Policy,
    settings: Settings,
    workers: Workers,
    on_batch: Callable[[Batch], object],
    pace: Pace,
    drain: float = DRAIN,
    storage: Storage | None = None,
) -> None:
    """Record what agents publish, and keep tables up to date with it.

    Args:
        sources: names, patterns or endpoints of the agents, each with a topic.
        journal: its directory; created when absent. It keeps as many days as the tables.
        directory: of the tables; created when absent.
        policy: a mailbox with a name, which is that of the recorder as well.
        settings: see `batches.Settings`.
        workers: that do the work.
        on_batch: called with each batch that is in the tables.
        pace: how it goes on; once: until what the mailboxes hold now is in the tables.
        drain: seconds for that to come.
        storage: writes the tables.

    Raises:
        JournalError: as `run.run`.
        ConfigError: as `run.run`.
        PzcError: when a publisher refuses, or a mailbox is read by another process.
    """
    settings.rules.check()
    assert policy.durable is not None
    kept: dict[str, Any] = {} if pace.keep_days is None else {"keep_seconds": pace.keep_days * 86_400.0}
    with (
        claimed(directory) as root,
        Recorder(
            journal, sources, name=policy.durable, policy=policy, max_age=AGE, compact=True, **kept
        ) as recorder,
        opened_tables(root, settings, workers, storage) as committer,
    ):
        if pace.once:
            recorder.drain(drain)
        home = recorder.journal.directory
        keep_up(home, committer, settings, on_batch, pace, lambda: _check(recorder))


def _check(recorder: Recorder) -> None:
    """Raise SubscriptionClosed when a mailbox is read by another process, or its publisher refuses."""
    for source, subscription in zip(recorder.sources, recorder.subscriptions, strict=True):
        if subscription.closed:
            reason = recorder.ended.get(subscription, "the subscription has ended")
            raise SubscriptionClosed(
                f"{source}: {reason}; one process at a time reads the mailboxes of one name"
            )


def mailbox_name(tables: str | Path) -> str:
    """Name of the mailboxes that belong to a folder of tables, unless another one is given."""
    digest = hashlib.sha256(os.fsencode(Path(tables).absolute())).hexdigest()
    return f"pipeline-{digest[:16]}"
