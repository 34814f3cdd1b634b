"""Looking: what mailboxes hold, without taking it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from ...agents.agent import Agent
from ...agents.notifications.columns import Burst, Missed
from ..arrow import pa
from ..recording.rows import Rows
from . import mailboxes
from .options import Options

MEMORY_ROWS = 10_000
"""Rows that go to Spark together."""

_LOOK = 0.05


def look(options: Options) -> Iterator[pa.RecordBatch]:
    """What the mailboxes hold and what comes within ``wait`` seconds, at most ``maxRowsPerBatch`` rows.

    Raises:
        PzcError: when a publisher refuses, or an endpoint cannot be reached.
    """
    seen = _Seen(options.max_rows)
    with Agent(protocol=options.protocol()) as agent:
        how: dict[str, Any] = {"policy": options.policy, "raw": True, "manual_ack": True, "sink": seen}
        read = [(each, agent.subscribe(each, topic, **how)) for each, topic in options.targets]

        def check() -> None:
            mailboxes.check(read, {})

        if options.name is not None:
            mailboxes.settle(agent, read, options.name, lambda: len(seen.rows), options.timeout, check)
        deadline, pause = time.monotonic() + options.wait, threading.Event()
        while not seen.paused and (left := deadline - time.monotonic()) > 0:
            pause.wait(min(left, _LOOK))
        check()
    if len(seen.rows):
        found = seen.rows.table(options.name or "", contents=[bytes(each) for each in seen.rows.contents])
        yield from found.slice(0, options.max_rows).to_batches(MEMORY_ROWS)


class _Seen:
    """Takes rows and acknowledges none."""

    def __init__(self, most: int) -> None:
        self.rows, self._most = Rows(), most

    @property
    def paused(self) -> bool:
        """There is enough."""
        return len(self.rows) >= self._most

    def take(self, burst: Burst) -> None:
        """Messages came."""
        self.rows.extend(burst)

    def miss(self, missed: Missed) -> None:
        """Messages will not come."""
