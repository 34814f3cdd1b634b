"""Tables that follow a journal, and days of them made anew.

::

    run        look for segments ─▶ batch ─▶ commit ─▶ on_batch ─▶ look again …
    backfill   the segments of some days ─▶ batch ─▶ the days are replaced, by one commit

One process at a time works on a folder of tables. It may be killed at any moment: what is not in the commit
log is done again.
"""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...protocol.errors import JournalError
from ..recording.flush import flush
from ..recording.reading import SegmentDamaged, SegmentGone, check_journal, opened
from ..schema import DAY, segments
from ..storage import Storage
from .again import keep_counts, recount
from .batches import Batch, Settings, Stage
from .committer import Committer, claimed
from .maintenance import Maintenance
from .origins import others
from .summary import Damage, File, Report
from .unread import SETTLE, Segment, Unread, describe, origins_of
from .work import Workers

log = logging.getLogger("pzc.pipeline")

EVERY = 1.0
"""Seconds between two looks for something new."""

MAX_FILES = 64
"""Segments of one batch at most."""

_EPOCH = datetime.date(1970, 1, 1)


def nothing(batch: Batch) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Pace:
    """How a run goes on, and when it ends.

    Attributes:
        every: seconds between two looks for something new.
        once: end when all that is there is in the tables, what recorders have in memory included.
        max_files: segments of one batch at most.
        stop: ends the run, behind the batch that it is at.
        settle: seconds for which a segment without an end is waited for.
        keep_days: days of receipt that are kept beside today's; None keeps all.
    """

    every: float = EVERY
    once: bool = False
    max_files: int = MAX_FILES
    stop: threading.Event = field(default_factory=threading.Event)
    settle: float = SETTLE
    keep_days: int | None = None


ENDLESS = Pace()
"""Until it is stopped."""


def run(
    journal: str | Path,
    directory: str | Path,
    settings: Settings,
    workers: Workers,
    on_batch: Callable[[Batch], object] = nothing,
    pace: Pace = ENDLESS,
    storage: Storage | None = None,
) -> None:
    """Keep tables up to date with a journal.

    Args:
        journal: its directory.
        directory: of the tables; created when absent.
        settings: see `batches.Settings`.
        workers: that do the work.
        on_batch: called with each batch that is in the tables.
        pace: how it goes on.
        storage: writes the tables.

    Raises:
        JournalError: when there is no journal, another process works on the tables, or they are in no state
            to be added to; says what to do.
        ConfigError: for a limit that cannot be judged.
        OSError: when the disk refuses; the tables are as after the last batch.
    """
    if pace.once:
        flush(journal)
    check_journal(journal)
    settings.rules.check()
    with claimed(directory) as root, opened_tables(root, settings, workers, storage) as committer:
        keep_up(Path(journal).absolute(), committer, settings, on_batch, pace)


@contextmanager
def opened_tables(
    root: Path, settings: Settings, workers: Workers, storage: Storage | None = None
) -> Iterator[Committer]:
    """The tables that this process has claimed; arguments and errors as `run`."""
    with closing(Committer(root, workers, storage or Storage())) as committer:
        yield committer


def keep_up(
    journal: Path,
    committer: Committer,
    settings: Settings,
    on_batch: Callable[[Batch], object],
    pace: Pace,
    check: Callable[[], object] = lambda: None,
) -> None:
    """As `run`, for open tables; ``check`` raises what ends the run."""
    following = _Following(journal, committer, settings, pace)
    maintenance = Maintenance(committer, pace.keep_days, time.time())
    ended = False
    while not ended and not pace.stop.is_set():
        check()
        committer.workers.check()
        made = following.take()
        if made is not None:
            on_batch(made)
        if maintenance.work(time.time()) or made is not None:
            continue
        committer.tell()
        ended = pace.once and not following.unsettled
        if not ended:
            pace.stop.wait(pace.every)
    committer.tell(at_once=True)


class _Following:
    """Batches of one run."""

    def __init__(self, journal: Path, committer: Committer, settings: Settings, pace: Pace) -> None:
        self._committer, self._settings, self._journal = committer, settings, str(journal)
        self._unread, self._pace = Unread(journal, pace.settle), pace
        self._number, self._careful = 0, committer.was_killed
        self.unsettled = False

    def take(self) -> Batch | None:
        """The next batch; None when there is nothing new."""
        began, committer = time.monotonic(), self._committer
        state = committer.state
        found = self._unread.look(state, self._pace.max_files, time.time())
        self.unsettled = found.unsettled
        if not found.segments and not found.damaged:
            return None
        label = committer.label(self._number)
        handled = {recorder: runs.flat() for recorder, runs in found.handled.items()}
        careful, self._careful = self._careful, False
        self._settings = replace(self._settings, rules=self._settings.rules.current())
        here = careful or committer.workers.is_here(sum(each.rows for each in found.segments))
        with committer.attempt(here) as folder:
            stage = Stage(folder, committer.workers, self._settings, label, careful)
            stage.take(found.segments, handled)
            stage.leave_out_copies(state)
        commit = stage.commit(found.damaged)
        commit.origins = found.origins
        commit.journal = None if state.journal == self._journal else self._journal
        tell_damage(commit.damaged)
        committer.commit(commit)
        made = stage.batch(self._number, state, commit, time.monotonic() - began)
        self._number += 1
        return made


def tell_damage(damaged: Sequence[Damage]) -> None:
    """Name segments that could not be read as a whole."""
    for one in damaged:
        told = "no row" if not one.read else f"{one.read} of {one.rows} rows"
        log.error("segment %s is damaged, %s could be read: %s", one.file, told, one.reason)


def backfill(
    journal: str | Path,
    directory: str | Path,
    settings: Settings,
    workers: Workers,
    first: datetime.date,
    last: datetime.date,
) -> tuple[Batch, tuple[datetime.date, ...]]:
    """Make the days from ``first`` to ``last`` (UTC, both included) anew, whatever the tables hold.

    Days without rows in the journal stay as they are. What was stored on another day is not stored again. The
    days are replaced at once: a kill leaves them as they were.

    Returns:
        What was made, and the days.

    Raises:
        JournalError: as `run`; when no row of these days verifies, and stored ones did.
        ConfigError: as `run`.
    """
    flush(journal)
    check_journal(journal)
    settings.rules.check()
    times = _micros(first), _micros(last) + DAY - 1
    with claimed(directory) as root, opened_tables(root, settings, workers) as committer:
        return _remade(Path(journal).absolute(), committer, settings, times)


def _remade(
    journal: Path, committer: Committer, settings: Settings, times: tuple[int, int]
) -> tuple[Batch, tuple[datetime.date, ...]]:
    began, label, before = time.monotonic(), committer.label(0), committer.state
    stage = Stage(committer.clear(), committer.workers, settings, label)
    stage.take(_segments_of(journal, times), {}, times)
    numbers = sorted({day for report in stage.reports for day in report.days})
    if not numbers:
        return Batch(-1), ()
    days = tuple(_EPOCH + datetime.timedelta(number) for number in numbers)
    replaced = [file for file in committer.files if file.day in days]
    _check_verified(journal, stage.reports, replaced)
    gone = {file.place for file in replaced}
    kept = [file for file in committer.files if file.place not in gone]
    state = recount(committer.root, committer.workers, kept, before)
    stage.leave_out_copies(state)
    commit = stage.commit()
    commit.origins = others(before.origins, origins_of([path for _, path in segments(journal)]))
    known = {damage.file for damage in before.damaged}
    commit.damaged = [damage for damage in commit.damaged if damage.file not in known]
    tell_damage(commit.damaged)
    commit.journal = str(journal)
    state.apply(commit)
    keep_counts(before, state)
    committer.move_in(commit.added)
    committer.replace(state, [*kept, *commit.added])
    return stage.batch(0, state, commit, time.monotonic() - began), days


def _check_verified(journal: Path, reports: Sequence[Report], replaced: Sequence[File]) -> None:
    """A key that was forgotten is not to cost what verified with it.

    Raises:
        JournalError: when no row verified, and some of those that would be replaced did.
    """
    stored = sum([file.rows for file in replaced if file.table == "notifications"])
    if stored and not any(report.filed("notifications") for report in reports):
        raise JournalError(
            f"no row of these days verified, and the tables have {stored} notifications of them: nothing was "
            f"replaced. Is the key that of the lab? pzc journal verify {journal} tells why"
        )


def _segments_of(journal: Path, times: tuple[int, int]) -> list[Segment]:
    """Segments that may hold rows that were received between two times."""
    found: list[Segment] = []
    for _, path in segments(journal):
        try:
            with opened(path) as file:
                segment = describe(path, file.metadata)
        except (SegmentGone, SegmentDamaged):  # `run` names it
            continue
        if segment.oldest <= times[1] and segment.newest >= times[0]:
            found.append(segment)
    return found


def _micros(day: datetime.date) -> int:
    return (day - _EPOCH).days * DAY
