"""The Mauna Loa CO2 analyser, replayed from the weekly record that statsmodels ships."""

from __future__ import annotations

import math
import threading
from typing import cast

import pandas
from statsmodels.datasets import co2 as mauna_loa

from examples.lab.pacing import Publish, Tally, publish_paced


class Co2Analyser:
    """Weekly means of atmospheric CO2 at Mauna Loa, 29 March 1958 to 29 December 2001.

    The data are public domain (C. D. Keeling and T. P. Whorf, 2004) and lie inside the statsmodels
    package, so nothing is fetched. Weeks without a valid measurement are part of the record.
    """

    def __init__(self) -> None:
        weekly = cast(pandas.DataFrame, mauna_loa.load_pandas().data)["co2"]
        self._record: list[tuple[str, float | None]] = [
            (cast(pandas.Timestamp, week).date().isoformat(), None if math.isnan(ppm) else float(ppm))
            for week, ppm in weekly.items()
        ]

    def record(self) -> list[tuple[str, float | None]]:
        """Give the whole record as (ISO date of the Saturday, ppm or None), oldest first."""
        return list(self._record)

    def run(
        self, publish: Publish, stop: threading.Event, rate_hz: float = 100.0, count: int | None = None
    ) -> Tally:
        """Replay the record once on topic ``co2``, one content per week.

        The content is ``{"date": "1958-03-29", "ppm": 316.1}``, with ``"ppm": None`` for a missing week.
        Ends with the record, after ``count`` weeks if that is fewer, or at ``stop``. Args, result and
        errors are otherwise those of :func:`examples.lab.pacing.publish_paced`.
        """
        weeks = len(self._record) if count is None else min(count, len(self._record))
        return publish_paced(publish, "co2", self._week, stop, rate_hz, count=weeks)

    def _week(self, index: int) -> dict[str, str | float | None]:
        date, ppm = self._record[index]
        return {"date": date, "ppm": ppm}
