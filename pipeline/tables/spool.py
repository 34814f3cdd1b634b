"""Spool: what comes out of mailboxes, on disk before it is acknowledged, and gone once it is in the tables.

::

    publisher's mailbox ─▶ recorder ─▶ segment ─▶ acknowledged
                                          └─▶ batch ─▶ commit log ─▶ segment removed

It is a journal like any other, so its rows get into tables as those of a journal do. The newest segment
stays: it says where offsets go on. A spool that holds `BYTES` asks its publishers for nothing more, so what
they publish stays in their mailboxes.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

from ...agents.notifications.merged import Merged
from ...protocol.errors import SubscriptionClosed
from ...transport.wire import Protocol
from ..recording.recorder import Recorder
from ..schema import segment_recorder, segment_span, segments
from ..source.joining import kept
from ..source.options import Options
from ..storage import Storage
from .batches import Batch, Settings
from .committer import claimed
from .interval_set import IntervalSet
from .run import Source, keep_up
from .work import Workers

FOLDER = ".spool"
"""Folder among the tables."""

AGE = 0.05
"""Seconds for which a row waits for others of its segment."""

BYTES = 1 << 30
"""Of segments that are not in the tables, beyond which nothing more is asked for."""

WHOLE = 1 << 40
"""A content of less bytes stands in its row: a blob would have to be kept for as long as the row is."""

_MANY = 10_000
_LOOK = 0.05


class Spool(Source):
    """The spool of a folder of tables, which fills while it is open; use as a context manager, or `close`.

    Args:
        root: of the tables, which this process has claimed.
        options: targets, name and bounds of the mailboxes.
        protocol: default `Protocol`, which reads the ``PZC_`` variables.

    Raises:
        JournalError: when the folder cannot be used.
        PzcError: when a publisher refuses, or an endpoint cannot be reached.
    """

    stays = False

    def __init__(self, root: Path, options: Options, protocol: Protocol | None = None) -> None:
        self.journal = root / FOLDER
        self._mailbox = options.name
        self._recorder = Recorder(
            self.journal,
            options.targets,
            name=_recorder_of(self.journal),
            protocol=protocol,
            policy=options.policy,
            must_exist=False,
            max_age=AGE,
            blob_bytes=WHOLE,
        )

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def settle(self, timeout: float) -> bool:
        """Wait until what the mailboxes hold now is here; False after so many seconds."""
        deadline = time.monotonic() + timeout
        recorder, pause = self._recorder, threading.Event()
        enough: int | None = None
        while time.monotonic() < deadline:
            before = recorder.recorded
            waiting = self._waiting(deadline)
            if waiting is not None:
                enough = before + waiting if enough is None else enough
                if not waiting or before >= enough:
                    recorder.journal.commit()
                    return True
            self.check()
            pause.wait(_LOOK)
        recorder.journal.commit()
        return False

    def _waiting(self, deadline: float) -> int | None:
        """What the mailboxes hold for this reader, sent or not; None when one does not tell."""
        agent = self._recorder.agent
        told = [kept(agent, source, self._mailbox, deadline) for source in self._sources()]
        return None if None in told else sum(one[0] for one in told if one)

    def _sources(self) -> set[str]:
        found: set[str] = set()
        for given, subscription in zip(self._recorder.sources, self._recorder.subscriptions, strict=True):
            if isinstance(subscription, Merged):
                found.update(subscription.sources)
            elif subscription.manual_ack:  # one without a mailbox has nothing to tell
                found.add(given)
        return found

    def check(self) -> None:
        """Raise what prevents rows from coming.

        Raises:
            SubscriptionClosed: when a mailbox is read by another process now, or its publisher refuses.
        """
        for given, subscription in zip(self._recorder.sources, self._recorder.subscriptions, strict=True):
            if subscription.closed:
                reason = self._recorder.ended.get(subscription, "the subscription has ended")
                raise SubscriptionClosed(
                    f"{given}: {reason}; one process at a time reads the mailboxes of one name"
                )

    def stored(self, done: Mapping[str, IntervalSet]) -> None:
        """Remove the segments whose rows are in the tables, but for the newest one.

        Args:
            done: offsets that the commit log has, by recorder.
        """
        found = segments(self.journal)
        for (_, path), (following, _) in pairwise(found):
            recorder, first, _ = segment_span(path)
            if done.get(recorder, IntervalSet()).covers(first, following - 1):
                path.unlink(missing_ok=True)
        size = sum(path.stat().st_size for _, path in segments(self.journal))
        self._recorder.held = size > BYTES

    def close(self) -> None:
        """Receive no more; the mailboxes stay."""
        self._recorder.close()


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
    with claimed(directory) as root, Spool(root, options, options.protocol()) as spool:
        if once:
            spool.settle(options.timeout)
        keep_up(
            spool, root, settings, workers, on_batch, every=every, once=once, max_files=_MANY,
            max_rows=options.max_rows, stop=stop, settle=0.0, storage=storage, keep_days=keep_days,
        )  # fmt: skip


def mailbox_name(tables: str | Path) -> str:
    """Name of the mailboxes that belong to a folder of tables, unless somebody says another one."""
    digest = hashlib.sha256(os.fsencode(Path(tables).absolute())).hexdigest()
    return f"pipeline-{digest[:16]}"


def _recorder_of(spool: Path) -> str:
    """Whose offsets go on; a spool that is empty, as a lost one is, counts under another name."""
    found = segments(spool) if spool.is_dir() else []
    return segment_recorder(found[-1][1]) if found else f"spool-{uuid.uuid4().hex[:8]}"
