"""Collector: asks the agents of a lab again and again, and keeps its state.

::

    names ──▶ round, once in a period ──▶ threads for those that answered last ──▶ LabState, under a lock
                                     └──▶ a few threads for those that did not

An agent that hangs holds one thread for its patience, once; from then on it holds up only others that hang.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any

from ...agents import Agent, Watch, watch
from ...discovery.names import Pattern, is_pattern
from ...discovery.records import Entry
from ...discovery.site import parse_peers
from ...protocol.contents import as_list, as_table
from ...protocol.errors import Refused
from ...transport.peer import Peer
from ..output import describe
from .state import LabState
from .watched import Told, number

AT_ONCE, AT_ONCE_SILENT = 16, 8
"""Agents that are asked at the same time: of those that answered last, and of the others."""

PATIENCE = 2.0
"""Seconds for the answers of one agent."""

SETTLE = 1.0
"""Seconds that `Collector.look` waits for names."""

_ABOUT = ("agent_id", "epoch", "name", "kind", "host", "pid")
_ROUND = 30.0


class Collector:
    """Keeps the state of a lab.

    Args:
        agent: asks; stays the caller's.
        names: of agents, or patterns of names; none for all that are found.
        patience: seconds for the answers of one agent.
        every: seconds between two rounds.

    Attributes:
        agent: as given.
        after: called after each round, in the collector's thread.
    """

    def __init__(
        self, agent: Agent, names: Sequence[str] = (), patience: float = PATIENCE, every: float = 1.0
    ) -> None:  # fmt: skip
        self.agent = agent
        self.patience = patience
        self._every = every
        self.after: list[Callable[[], object]] = []
        self._state = LabState()
        self._lock = threading.RLock()
        self._asked: dict[str, Future[None]] = {}
        self._links: frozenset[str] = frozenset()
        self._answering = ThreadPoolExecutor(AT_ONCE, "pzc-monitor")
        self._silent = ThreadPoolExecutor(AT_ONCE_SILENT, "pzc-monitor-silent")
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        static = parse_peers(agent.settings["PZC_PEERS"])
        self._fixed = [name for name in names if "://" in name or not is_pattern(name)]
        self._fixed += [] if names else list(static)
        self._patterns = [name for name in names if name not in self._fixed] if names else ["**"]
        self._watch: Watch | None = None

    @contextmanager
    def state(self) -> Generator[LabState]:
        """The state, for one reader or writer at a time; not to be kept."""
        with self._lock:
            yield self._state

    def tell(self) -> dict[str, Any]:
        """See `LabState.tell`."""
        with self._lock:
            return self._state.tell(time.monotonic())

    def is_busy(self, name: str) -> bool:
        """Whether calls run or wait at an agent."""
        with self._lock:
            watched = self._state.agents.get(name)
            return watched is None or not watched.answers or bool(watched.running)

    def begin(self) -> None:
        """Follow names and ask, in a thread of its own, until `close`."""
        self._open()
        self._thread = threading.Thread(target=self._run, name="pzc-monitor-rounds", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        if self._patterns and self._watch is None:
            pattern = self._patterns[0] if len(self._patterns) == 1 else "**"
            self._watch = watch("agent", pattern, protocol=self.agent.protocol)

    def _run(self) -> None:
        due, failed = time.monotonic(), ""
        while not self._stopped.is_set():
            words = ""
            try:
                self.look(wait_all=False)
            except Exception as exc:  # of a part of it: what stands on the screens must not stand still
                words = f"not all could be looked at: {describe(exc)}"
            if words and words != failed and not self._stopped.is_set():
                with self._lock:
                    self._state.note(time.monotonic(), "bad", "", words)
            failed = words
            due = max(due + self._every, time.monotonic())
            self._stopped.wait(due - time.monotonic())

    def settle(self) -> None:
        """Wait until the names that are there are known, at most `SETTLE`."""
        self._open()
        if self._watch is not None:
            self._stopped.wait(min(SETTLE, self.patience))

    def look(self, wait_all: bool = True) -> None:
        """Ask everybody once.

        Args:
            wait_all: return when all have answered, or their time is over; else when whoever answered
                within `every` did.
        """
        now = time.monotonic()
        reads = [as_table(each.get("link")) for each in self.agent.statistics()["subscriptions"]]
        self._links = frozenset(str(link["link"]) for link in reads if link)
        with self._lock:
            self._names(now)
            watched = list(self._state.agents.values())
        for each in watched:
            before = self._asked.get(each.name)
            if each.state == "gone" or (before is not None and not before.done()):
                continue
            pool = self._silent if each.state == "silent" else self._answering
            self._asked[each.name] = pool.submit(self._ask, each.name)
        asked = list(self._asked.values())
        wait(asked, _ROUND if wait_all else self._every)
        with self._lock:
            self._state.clean(time.monotonic())
        for call in self.after:
            call()

    def _names(self, now: float) -> None:
        there = dict.fromkeys(self._fixed)
        entries: dict[str, Entry] = {}
        for entry in self._watch.entries if self._watch is not None else ():
            name = entry.name.removeprefix("/")
            fits = any(Pattern(pattern).matches(entry.name) for pattern in self._patterns)
            if fits and entry.agent != self.agent.agent_id:
                entries[name] = entry
        for name in [*there, *entries]:
            entry = entries.get(name)
            about = {} if entry is None else {
                "type": entry.type, "host": entry.host, "pid": entry.pid, "agent_id": entry.agent,
                "endpoint": entry.addresses[0] if entry.addresses else "", "serves": entry.kind == "service",
            }  # fmt: skip
            self._state.come(name, now, about)
        for name, watched in list(self._state.agents.items()):
            if name not in there and name not in entries and watched.state != "gone":
                self._state.leave(name, now)
        self._asked = {name: each for name, each in self._asked.items() if name in self._state.agents}

    def _ask(self, name: str) -> None:
        """One agent; whatever it does, it is told in the state."""
        try:
            told = self._told(name)
        except Exception as exc:  # what an agent answers may be anything
            if not self._stopped.is_set():
                with self._lock:
                    self._state.fail(name, describe(exc), time.monotonic())
            return
        with self._lock:
            self._state.hear(name, told, time.monotonic())

    def _told(self, name: str) -> Told:
        deadline = time.monotonic() + self.patience
        peer = self.agent.peer(name, self.patience)
        if not peer.native:
            raise Refused("an original Pizco tells no statistics")
        left = partial(_left, deadline)
        statistics = as_table(self.agent.request(peer.endpoint, {"pzc": "statistics"}, left()))
        leave_out(statistics, self._links)
        calls = as_table(statistics.get("calls"))
        running: tuple[Any, ...] = ()
        if calls.get("running") or calls.get("waiting"):
            answer = as_table(self.agent.request(peer.endpoint, {"pzc": "running"}, left()))
            at = {"at": time.time()}
            running = tuple({**as_table(each), **at} for each in as_list(answer.get("running")))
        return Told(_about(name, peer), statistics, running)

    def close(self) -> None:
        """Ask nobody any more; what is asked now ends within the patience."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(self.patience + self._every + 1)
        self._answering.shutdown(cancel_futures=True)
        self._silent.shutdown(cancel_futures=True)
        if self._watch is not None:
            self._watch.close()


def leave_out(statistics: dict[str, Any], ours: Set[str]) -> None:
    """Take back what was dropped for links of our own: that the monitor is slow is no trouble of the lab."""
    topics = as_table(statistics.get("topics"))
    for link in as_list(as_table(statistics.get("links")).get("links")):
        if as_table(link).get("link") in ours:
            for name, told in as_table(as_table(link).get("topics")).items():
                topic = as_table(topics.get(name))
                topic["dropped"] = int(number(topic.get("dropped")) - number(as_table(told).get("dropped")))


def _left(deadline: float) -> float:
    return max(0.05, round(deadline - time.monotonic(), 2))


def _about(target: str, peer: Peer) -> dict[str, Any]:
    told = {name: peer.details.get(name, "") for name in _ABOUT}
    one = as_table(peer.details.get("objects")).get(peer.object_at(target))
    served = peer.details.get("serves", "") if one is None else one
    return {**told, "endpoint": peer.endpoint, "type": served, "serves": "serves" in peer.details}
