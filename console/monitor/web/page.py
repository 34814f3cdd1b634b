"""Page: what one browser has been told, so that it is told what is new and nothing else. Pure, as `state`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....protocol.contents import as_list
from ...values import to_json
from ..live import Live
from ..state import LabState
from ..troubles import worst_of
from ..watched import short

MOST_OPEN = 12
"""Panels that one page may have open."""

ROWS_EVERY = 1.0
"""Seconds between two tellings of the table; values of open panels come with every message."""

_IN_ROW = ("agent", "name", "type", "state", "serves", "does", "holds", "behind", "error")


class Page:
    """What one browser knows.

    Attributes:
        open: names of the agents whose panels are open.
    """

    def __init__(self) -> None:
        self.open: tuple[str, ...] = ()
        self._rows: dict[str, dict[str, Any]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._troubles: list[Any] | None = None
        self._processes: list[Any] | None = None
        self._line = 0
        self._told_rows = 0.0

    def ask(self, message: Mapping[str, Any]) -> None:
        """Take what the browser says: ``{"open": [names]}``."""
        names = [short(name) for name in as_list(message.get("open"))[:MOST_OPEN]]
        self.open = tuple(dict.fromkeys(name for name in names if name))
        self._counts = {key: count for key, count in self._counts.items() if key[0] in self.open}

    def news(self, state: LabState, reads: Mapping[tuple[str, str], Live], now: float) -> dict[str, Any]:
        """What is new since it was asked last."""
        message: dict[str, Any] = {"now": now}
        if now - self._told_rows >= ROWS_EVERY:
            self._told_rows = now
            message |= self._of_table(state, now)
            gaps = state.gaps()
            details = {
                name: to_json(_shown(state.detail(name, now, gaps)))
                for name in self.open
                if name in state.agents
            }
            if details:
                message["details"] = details
        values: dict[str, dict[str, Any]] = {}
        for (agent, name), live in {**reads, **state.lives}.items():  # a topic is newer than what was read
            if agent in self.open and (told := self._value(agent, name, live, now)):
                values.setdefault(agent, {})[name] = told
        if values:
            message["values"] = values
        return message

    def _value(self, agent: str, name: str, live: Live, now: float) -> dict[str, Any] | None:
        before = self._counts.get((agent, name), 0)
        if live.count == before:
            return None
        self._counts[agent, name] = live.count
        return live.tell(now, before)

    def _of_table(self, state: LabState, now: float) -> dict[str, Any]:
        found = state.troubles(now)
        worst = worst_of(found)
        rows = {name: _row(state, name, now) | {"trouble": worst.get(name, "")} for name in state.agents}
        new: dict[str, Any] = {name: row for name, row in rows.items() if self._rows.get(name) != row}
        new |= dict.fromkeys(self._rows.keys() - rows.keys())
        self._rows = rows
        message: dict[str, Any] = {}
        if new:
            message["rows"] = new
        troubles = [each._asdict() | {"since": round(each.since)} for each in found]
        if troubles != self._troubles:
            message["troubles"] = self._troubles = troubles
        if state.processes != self._processes:
            message["processes"] = self._processes = list(state.processes)
        lines = [line._asdict() for line in state.lines if line.number > self._line]
        if lines:
            self._line = lines[-1]["number"]
            message["log"] = lines
        return message


def _shown(told: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in told.items() if key not in ("links", "ring", "subscriptions")}


def _row(state: LabState, name: str, now: float) -> dict[str, Any]:
    told = state.agents[name].tell(now)
    topics = list(told.get("topics", {}).values())
    row = {key: told[key] for key in _IN_ROW if key in told}
    row |= {
        "topics": len(topics), "rate": round(sum(each["rate_hz"] for each in topics), 1),
        "dropped": sum(each["dropped"] for each in topics),
        "refused": sum(told.get("refused", {}).values()),
        "calls": told.get("calls", {}).get("rate_hz", 0.0),
    }  # fmt: skip
    if told["state"] != "well":
        row["heard_s"] = None if told["heard_s"] is None else round(told["heard_s"])
    return row
