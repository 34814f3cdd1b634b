"""Watched: one agent as it was last heard. Pure: no socket, clock or screen.

Times are given in seconds of a clock that nobody sets: a step of the wall clock is no pause of anybody.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ...protocol.contents import as_list, as_table
from ...protocol.shown import printable

State = Literal["new", "well", "silent", "gone"]

MOST_TOPICS, MOST_CALLS, MOST_SUBSCRIPTIONS = 500, 100, 500
"""What is kept of one agent."""

WINDOW = 60.0
"""Seconds over which losses and refusals are told as recent."""

REGULAR = 10
"""Intervals after which a topic is known to come regularly."""


class Told(NamedTuple):
    """What an agent answered.

    Attributes:
        about: ``endpoint name agent_id epoch type serves kind host pid`` of its handshake.
        statistics: as `Agent.statistics`.
        running: calls that run or wait, as the word ``running`` tells them; ``at`` in Unix seconds.
    """

    about: Mapping[str, Any]
    statistics: Mapping[str, Any]
    running: tuple[Mapping[str, Any], ...] = ()


def number(value: object) -> float:
    """A number of a peer's; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        found = float(value)
    except OverflowError:
        return 0.0
    return found if math.isfinite(found) else 0.0


def short(value: object, most: int = 200) -> str:
    """A text of a peer's on one line; of anything else nothing."""
    return printable(value, most) if isinstance(value, str) else ""


class Growth:
    """A count that only grows, and by how much it did in the last `WINDOW`; a restart begins at 0."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=64)

    def add(self, now: float, total: int) -> None:
        """What it is now."""
        if self._seen and total < self._seen[-1][1]:
            self._seen.clear()
            self._seen.append((now, 0))
        if len(self._seen) < 2 or now - self._seen[-2][0] >= WINDOW / 60:
            self._seen.append((now, total))
        else:
            self._seen[-1] = (now, total)
        while len(self._seen) > 1 and now - self._seen[1][0] > WINDOW:
            self._seen.popleft()

    @property
    def total(self) -> int:
        """What it was last."""
        return self._seen[-1][1] if self._seen else 0

    def recent(self) -> int:
        """By how much it grew."""
        return self._seen[-1][1] - self._seen[0][1] if self._seen else 0

    def rate(self) -> float:
        """Per second, between the last two times."""
        if len(self._seen) < 2:
            return 0.0
        (began, first), (ended, last) = self._seen[-2], self._seen[-1]
        return (last - first) / max(ended - began, 1e-3)


@dataclass
class Topic:
    """One topic of an agent.

    Attributes:
        told: ``published rate_hz bytes_per_s dropped subscribers readers``.
        changed_at: when ``published`` was seen to grow; None before.
        intervals: how often it was seen to grow.
        longest: seconds between two times that it grew, at most.
        total: seconds between the first and the last time.
        dropped: what readers were not sent.
    """

    told: dict[str, Any] = field(default_factory=dict[str, Any])
    changed_at: float | None = None
    intervals: int = 0
    longest: float = 0.0
    total: float = 0.0
    dropped: Growth = field(default_factory=Growth)

    def hear(self, told: Mapping[str, Any], now: float) -> None:
        """Take what its agent tells."""
        published = int(number(told.get("published")))
        if not self.told or published != self.told["published"]:
            if self.changed_at is not None:
                interval = now - self.changed_at
                self.intervals += 1
                self.longest = max(self.longest, interval)
                self.total += interval
            self.changed_at = now if published else None
        self.told = {
            "published": published, "rate_hz": number(told.get("rate_hz")),
            "bytes_per_s": number(told.get("bytes_per_s")), "dropped": int(number(told.get("dropped"))),
            "subscribers": int(number(told.get("subscribers"))),
            "readers": [short(name) for name in as_list(told.get("readers"))[:20]],
        }  # fmt: skip
        self.dropped.add(now, self.told["dropped"])

    def silence(self, now: float) -> float:
        """Seconds for which a topic that came regularly is silent; 0 while it is not."""
        if self.changed_at is None or self.intervals < REGULAR:
            return 0.0
        usual = self.total / self.intervals
        quiet = now - self.changed_at
        regular = self.longest <= 3 * usual + 2
        return quiet if regular and quiet > max(5.0, 3 * self.longest) else 0.0


class Watched:
    """One agent, as it was last heard.

    Args:
        name: by which it is watched: a name or an endpoint.
        now: when it was first heard of.
        about: what was announced of it.

    Attributes:
        state: ``new`` until it answers, ``silent`` when it does not, ``gone`` when its name is.
        since: when this state began.
        heard_at: when it answered last.
        error: why it does not answer.
    """

    def __init__(self, name: str, now: float, about: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.state: State = "new"
        self.since = now
        self.heard_at: float | None = None
        self.error = ""
        self.about: dict[str, Any] = dict(about or {})
        self.topics: dict[str, Topic] = {}
        self.calls = Growth()
        self.refused: dict[str, Growth] = {}
        self.running: list[dict[str, Any]] = []
        self.lock: dict[str, Any] | None = None
        self.behind = 0
        self._told: Mapping[str, Any] = {}

    @property
    def serves(self) -> bool:
        """Whether it is a server, of one object or of several."""
        return bool(self.about.get("serves") or self.about.get("type"))

    @property
    def answers(self) -> bool:
        """Whether it did when it was asked last."""
        return self.state == "well"

    def _become(self, state: State, now: float) -> None:
        if state != self.state:
            self.state, self.since = state, now

    def hear(self, told: Told, now: float) -> bool:
        """Take what it answered; True when it is another agent than before, such as after a restart."""
        restarted = self.about.get("epoch") not in (None, told.about.get("epoch"))
        if restarted:
            self.topics, self.refused, self.calls = {}, {}, Growth()
        self.about.update(told.about)
        self.heard_at, self.error, self._told = now, "", told.statistics
        calls = as_table(told.statistics.get("calls"))
        counts: dict[Any, Any] = as_table(told.statistics.get("counts"))
        self.calls.add(now, int(number(counts.get("requests"))))
        for count, total in counts.items():
            if isinstance(count, str) and count.startswith("refused_") and len(self.refused) < MOST_CALLS:
                reason = short(count.removeprefix("refused_"))
                self.refused.setdefault(reason, Growth()).add(now, int(number(total)))
        self.running = [_call(each) for each in told.running[:MOST_CALLS]]
        self.lock = _lock(calls.get("lock"))
        self._hear_topics(as_table(told.statistics.get("topics")), now)
        subscriptions = [as_table(each) for each in as_list(told.statistics.get("subscriptions"))]
        self.behind = int(sum(number(each.get("pending")) for each in subscriptions))
        self._become("well", now)
        return restarted

    def _hear_topics(self, topics: Mapping[Any, Any], now: float) -> None:
        self.topics = {name: topic for name, topic in self.topics.items() if name in topics}
        for name, told in list(topics.items())[:MOST_TOPICS]:
            if isinstance(name, str):
                self.topics.setdefault(name, Topic()).hear(as_table(told), now)

    def fail(self, error: str, now: float) -> None:
        """It did not answer."""
        self.error = printable(error, 500)
        if self.state != "gone":
            self._become("silent", now)

    def leave(self, now: float) -> None:
        """Its name is gone."""
        self._become("gone", now)

    def come(self, now: float) -> None:
        """Its name is there again."""
        if self.state == "gone":
            self._become("new", now)

    @property
    def subscriptions(self) -> list[dict[str, Any]]:
        """What it reads of others."""
        return [as_table(each) for each in as_list(self._told.get("subscriptions"))[:MOST_SUBSCRIPTIONS]]

    def does(self) -> str:
        """In words, what it does."""
        if self.behind:
            return f"{self.behind} notifications behind"
        busy = [call for call in self.running if call["state"] == "running"]
        return ", ".join(f"{call['member']} for {call['since']:.0f} s" for call in busy) or "idle"

    def holds(self) -> str:
        """In words, who holds its lock; empty when nobody does."""
        if self.lock is None:
            return ""
        reason = f" ({self.lock['reason']})" if self.lock["reason"] else ""
        waiting = f", {self.lock['waiting']} waiting" if self.lock["waiting"] else ""
        return f"{self.lock['owner']}{reason}{waiting}"

    def tell(self, now: float) -> dict[str, Any]:
        """All of it in terms of JSON, for programs and for who shows it."""
        told: dict[str, Any] = {
            "agent": self.name,
            **{
                name: short(self.about.get(name))
                for name in ("name", "endpoint", "agent_id", "type", "host")
            },
            "pid": int(number(self.about.get("pid"))),
            "serves": self.serves, "state": self.state,
            "since_s": round(now - self.since, 1),
            "heard_s": None if self.heard_at is None else round(now - self.heard_at, 1),
        }  # fmt: skip
        if not self.answers and self.error:
            told["error"] = self.error
        if self.heard_at is None:
            return told
        calls, links = as_table(self._told.get("calls")), as_table(self._told.get("links"))
        return {
            **told,
            "calls": {
                "count": int(number(as_table(self._told.get("counts")).get("requests"))),
                "rate_hz": round(self.calls.rate(), 1), "running": int(number(calls.get("running"))),
                "waiting": int(number(calls.get("waiting"))),
            },
            "running": self.running, "does": self.does(), "lock": self.lock, "holds": self.holds(),
            "held": int(number(calls.get("held"))), "behind": self.behind,
            "refused": {reason: growth.recent() for reason, growth in self.refused.items()},
            "topics": {
                short(name): {
                    **topic.told,
                    "age_s": None if topic.changed_at is None else round(now - topic.changed_at, 1),
                }
                for name, topic in self.topics.items()
            },
            "links": [as_table(each) for each in as_list(links.get("links"))[:MOST_SUBSCRIPTIONS]],
            "ring": as_table(links.get("ring")), "subscriptions": self.subscriptions,
        }  # fmt: skip


def _call(told: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: short(told.get(name)) for name in ("member", "caller", "state", "agent", "id")
    }
    return {**found, "since": number(told.get("since")), "at": number(told.get("at"))}


def _lock(told: object) -> dict[str, Any] | None:
    lock = as_table(told)
    if not lock:
        return None
    return {
        "owner": short(lock.get("owner")), "reason": short(lock.get("reason")),
        "since": number(lock.get("since")), "waiting": int(number(lock.get("waiting"))),
    }  # fmt: skip
