"""``pzc top``: what agents do, once a second."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..agents.agent import Agent
from ..protocol.errors import PeerLost, PzcError, Refused
from ..protocol.frames import PZC00
from .members import all_names, leased_agent
from .options import Commands, add_command, add_every, add_json, add_timeout, positive
from .output import describe, write, write_json
from .rates import in_bytes
from .targets import UsageError
from .values import plain

PATIENCE = 2.0
"""Seconds that one agent may take to answer, unless ``--timeout`` says otherwise."""

AT_ONCE = 16
"""Agents that are asked at the same time."""

_READERS = 3
_CLEAR = "\x1b[H\x1b[2J"


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    top = add_command(
        commands, "top", run_top, "show calls, topics, links, leases and locks of agents, once a second",
        "pzc top psu camera\n  pzc top --count 1 --json   (all that are found, once)",
    )  # fmt: skip
    top.add_argument(
        "agents", nargs="*", metavar="N", help="REP endpoint or name; default all that are found"
    )
    top.add_argument("-n", "--count", type=positive, metavar="N", help="end after so many refreshes")
    add_every(top, "refreshes")
    add_timeout(top, f"that one agent may take to answer; default {PATIENCE:g}")
    add_json(top)


def run_top(args: argparse.Namespace) -> int:
    """``pzc top``; fails when an agent could not be reached at the end."""
    names = args.agents or all_names()
    if not names:
        raise UsageError("nobody was found: name an agent, or set PZC_PEERS")
    patience = args.timeout or PATIENCE
    lost = ""
    with leased_agent(args.timeout) as (agent, _), ThreadPoolExecutor(AT_ONCE) as asking:
        watched = {name: Watched(agent, name, patience) for name in names}
        for number in _refreshes(args.count, args.every):
            for name in () if args.agents or number == 1 else all_names():
                watched.setdefault(name, Watched(agent, name, patience))
            told = list(asking.map(Watched.look, watched.values()))
            lost = next((f"{each['agent']}: {each['error']}" for each in told if "error" in each), "")
            if args.json:
                for each in told:
                    write_json(each)
            else:
                _show(told, redraw=sys.stdout.isatty(), first=number == 1)
    if lost:
        raise PeerLost(lost)
    return 0


def _refreshes(count: int | None, every: float) -> Iterator[int]:
    pause, due, number = threading.Event(), time.monotonic(), 0
    while count is None or number < count:
        number += 1
        yield number
        due = max(due + every, time.monotonic())
        if count is None or number < count:
            pause.wait(max(0.0, due - time.monotonic()))


class Watched:
    """One agent that is asked again and again.

    Args:
        agent: who asks.
        name: of the one that is asked, or its endpoint.
        patience: seconds for an answer.
    """

    def __init__(self, agent: Agent, name: str, patience: float) -> None:
        self._agent = agent
        self._name = name
        self._patience = patience
        self._before: tuple[float, int] | None = None

    def look(self) -> dict[str, Any]:
        """What it does now; with ``error`` when it does not answer."""
        try:
            peer = self._agent.peer(self._name, self._patience)
            if peer.dialect == PZC00:
                raise Refused("an original Pizco tells no statistics")
            told = self._agent.request(peer.endpoint, {"pzc": "statistics"}, self._patience)
            about = {"agent": self._name, "endpoint": peer.endpoint, "name": peer.name}
            return {**about, "agent_id": peer.agent_id, **self._digest(told)}
        except PzcError as exc:
            self._before = None
            return {"agent": self._name, "error": describe(exc)}

    def _digest(self, told: Mapping[str, Any]) -> dict[str, Any]:
        calls = int(told["counts"].get("requests", 0))
        now, before = time.monotonic(), self._before
        self._before = now, calls
        rate = 0.0 if before is None else max(0, calls - before[1]) / max(now - before[0], 1e-3)
        busy = told["calls"]
        return {
            "calls": {
                "count": calls, "rate_hz": rate, "running": busy["running"], "waiting": busy["waiting"],
            },
            "lock": busy["lock"], "held": busy["held"], "topics": told["topics"],
            "links": told["links"]["links"], "ring": told["links"]["ring"],
            "subscriptions": told["subscriptions"],
        }  # fmt: skip


def _show(told: Sequence[Mapping[str, Any]], *, redraw: bool, first: bool) -> None:
    lines = [line for each in told for line in lines_of(each)]
    text = "\n".join(plain(line, keep="") for line in lines)
    if redraw:
        write(f"{_CLEAR}{time.strftime('%H:%M:%S')}\n{text}")
    else:
        write(text if first else f"\n{text}")


def _readers(topic: Mapping[str, Any]) -> str:
    """How many agents read a topic, and the first of their names; an older agent tells none."""
    names: Sequence[str] = topic.get("readers", ())
    shown = ", ".join([*names[:_READERS], *["..."] * (len(names) > _READERS)])
    return f"{topic['subscribers']} ({shown})" if names else str(topic["subscribers"])


def lines_of(told: Mapping[str, Any]) -> list[str]:
    """One agent as lines of text."""
    title = " ".join(dict.fromkeys(filter(None, (told["agent"], told.get("name"), told.get("endpoint")))))
    if "error" in told:
        return [f"{title}  {told['error']}"]
    calls = told["calls"]
    rate = f"{calls['count']} ({calls['rate_hz']:.1f}/s)"
    busy = f"{calls['running']} running, {calls['waiting']} waiting"
    lines = [f"{title}  calls {rate}, {busy}  lock {_lock(told['lock'])}"]
    lines += _table(
        ("topic", "published", "rate/s", "bytes/s", "dropped", "readers"),
        [
            (name, topic["published"], f"{topic['rate_hz']:.1f}", in_bytes(topic["bytes_per_s"]),
             topic["dropped"], _readers(topic))
            for name, topic in sorted(told["topics"].items())
        ],
    )  # fmt: skip
    lines += _table(
        ("link to", "transport", "state", "sent", "rate/s", "unread", "leases", "p99 ms"),
        [
            (link["agent"][:8], link["transport"], link["state"], link["sent"], f"{link['rate_hz']:.1f}",
             link["unacknowledged"] + link["waiting"], link["leases"], f"{link['age']['p99'] * 1e3:.1f}")
            for link in told["links"]
        ],
    )  # fmt: skip
    lines += _table(
        ("reads", "of", "transport", "received", "rate/s", "dropped", "p99 ms"),
        [
            (each["topic"], each["publisher"][:8], each["transport"], each["received"],
             f"{each['rate_hz']:.1f}", each["dropped"], f"{each['age']['p99'] * 1e3:.1f}")
            for each in told["subscriptions"]
        ],
    )  # fmt: skip
    return lines


def _lock(lock: Mapping[str, Any] | None) -> str:
    return "free" if lock is None else f"held by {lock['owner']}, {lock['waiting']} waiting"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    if not rows:
        return []
    cells = [head, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return [
        "  " + "  ".join([f"{row[0]:<{widths[0]}}", *map(str.rjust, row[1:], widths[1:])]) for row in cells
    ]
