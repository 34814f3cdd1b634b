"""What ``pzc pipeline run`` tells of its batches: on a terminal one line that changes, else a line each."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..protocol.shown import plain
from .output import is_told, say, write, write_json, write_sentence

if TYPE_CHECKING:
    from ..pipeline.tables.alerts import Alerts
    from ..pipeline.tables.batches import Batch

COUNTS = ("rows", "notifications", "quarantined", "duplicates", "skipped", "alarms", "damaged")
"""Counts of a batch, which are added up."""


def facts(batch: Batch) -> dict[str, Any]:
    """A batch for programs; ``lag`` is now minus the newest receipt, in seconds, null without rows."""
    counts = {name: getattr(batch, name) for name in COUNTS}
    lag = round(time.time() - batch.newest, 3) if batch.newest else None
    rate = round(batch.rows / batch.seconds, 1) if batch.seconds else 0.0
    return {
        "batch": batch.number, **counts, "missing": batch.missing, "seconds": round(batch.seconds, 3),
        "rate": rate, "lag": lag,
    }  # fmt: skip


def in_words(told: Mapping[str, Any]) -> str:
    """The `facts` of a batch for people, in short."""
    lag = "" if told["lag"] is None else f", {_duration(told['lag'])} behind"
    return f"batch {told['batch']}: {told['rows']} rows, {told['rate']:.0f}/s{lag}"


class Progress:
    """Shows batches as they come, in a thread of Spark's.

    Args:
        as_json: a line of JSON on stdout for each; else they are told on stderr, and all together on stdout.
        announcer: publishes their alarms; None for nobody.
    """

    def __init__(self, as_json: bool, announcer: Alerts | None = None) -> None:
        self._json, self._announcer = as_json, announcer
        self._total = dict.fromkeys(COUNTS, 0)
        self._batches = self._missing = 0

    def show(self, batch: Batch) -> None:
        """Tell of one batch, and publish its alarms."""
        if self._announcer is not None:
            self._announcer.tell(batch.announce, batch.unannounced)
        self._batches += 1
        self._missing = batch.missing
        for name in COUNTS:
            self._total[name] += getattr(batch, name)
        told = facts(batch)
        if not self._json:
            self._say(told)
            return
        if self._announcer is not None:
            told |= {"published": self._announcer.published, "unpublished": self._announcer.lost}
        write_json(told)

    def _say(self, told: dict[str, Any]) -> None:
        line = (
            f"{in_words(told)}; {told['missing']} missing, {self._total['quarantined']} in quarantine, "
            f"{self._total['alarms']} alarms, {self._total['damaged']} damaged segments"
        )
        if sys.stderr is None:
            return
        with contextlib.suppress(OSError):  # nobody is left to be told
            if is_told():  # where a longer line could not be written over
                room = shutil.get_terminal_size().columns - 1
                print(f"\r{plain(line, keep='')[:room]}\033[K", end="", file=sys.stderr, flush=True)
            else:
                print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Tell of all batches together."""
        if self._json:
            return
        if self._batches and is_told():
            print(file=sys.stderr)
        if not self._batches:
            write("nothing new")
            return
        total = self._total
        write_sentence(
            f"{total['rows']} rows, {total['notifications']} notifications, "
            f"{total['duplicates']} duplicates, {total['quarantined']} in quarantine, "
            f"{self._missing} missing, {total['alarms']} alarms, "
            f"{total['damaged']} damaged segments"
        )
        if total["quarantined"] and not total["notifications"]:
            say("no row verified: is the key that of the lab? the column reason of quarantine tells why")


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
