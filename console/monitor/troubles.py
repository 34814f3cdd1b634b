"""Troubles: what of a lab a person should look at first, in words. Pure, as `watched`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from ..values import age
from .watched import Watched

Level = Literal["bad", "warn"]

LONG = 60.0
"""Seconds after which a call that runs is told."""

WAITING = 5.0
"""Seconds after which a call that waits is told."""

BEHIND = 1000
"""Notifications that a reader may be behind."""

FORGOTTEN = 600.0
"""Seconds after which a topic that ended, or a server that left, is no trouble any more."""


class Trouble(NamedTuple):
    """One thing to look at.

    Attributes:
        level: ``bad``: somebody does not work; ``warn``: something is lost, late or refused.
        agent: of whom.
        kind: what it is, one word; with the agent and `what` it is known again.
        what: of the agent: a topic, a member, or empty.
        words: for people.
        since: seconds for which it lasts.
    """

    level: Level
    agent: str
    kind: str
    what: str
    words: str
    since: float


def troubles_of(watched: Watched, now: float) -> Iterator[Trouble]:
    """What is wrong with one agent."""
    lasting, name = now - watched.since, watched.name
    if watched.state == "gone":
        if watched.serves and lasting < FORGOTTEN:
            yield Trouble("bad", name, "gone", "", f"is gone for {age(lasting)}", lasting)
        return
    if watched.state == "silent":
        heard = "" if watched.heard_at is None else f", last heard {age(now - watched.heard_at)} ago"
        yield Trouble("bad", name, "silent", "", f"does not answer{heard}: {watched.error}", lasting)
        return
    yield from _of_calls(watched)
    for topic_name, topic in watched.topics.items():
        silence = topic.silence(now)
        if 0 < silence < FORGOTTEN:
            usual = topic.total / topic.intervals
            words = f"{topic_name} is silent for {age(silence)}, and came every {max(usual, 0.1):.1f} s"
            yield Trouble("warn", name, "quiet", topic_name, words, silence)
        if (lost := topic.dropped.recent()) > 0:
            words = f"{topic_name}: {lost} notifications dropped in the last minute"
            yield Trouble("warn", name, "dropped", topic_name, words, 0.0)
    for reason, growth in watched.refused.items():
        if (count := growth.recent()) > 0:
            words = f"{count} message{'s' * (count != 1)} refused in the last minute: {reason}"
            yield Trouble("warn", name, "refused", reason, words, 0.0)
    if watched.behind >= BEHIND:
        yield Trouble("warn", name, "behind", "", f"is {watched.behind} notifications behind", 0.0)


def _of_calls(watched: Watched) -> Iterator[Trouble]:
    for call in watched.running:
        who, member = call["caller"] or call["agent"][:8], call["member"]
        if call["state"] == "running" and call["since"] > LONG:
            words = f"{member} has run for {age(call['since'])}, for {who}"
            yield Trouble("warn", watched.name, "long", call["id"], words, call["since"])
        elif call["state"] == "waiting" and call["since"] > WAITING:
            words = f"{member} of {who} has waited for its turn for {age(call['since'])}"
            yield Trouble("warn", watched.name, "waiting", call["id"], words, call["since"])


def sorted_troubles(troubles: Iterable[Trouble]) -> list[Trouble]:
    """The worst first, then the newest."""
    return sorted(troubles, key=lambda each: (each.level != "bad", each.since, each.agent, each.what))


def worst_of(troubles: Iterable[Trouble]) -> dict[str, Level]:
    """The worst level of each agent that has troubles."""
    found: dict[str, Level] = {}
    for each in troubles:
        found[each.agent] = "bad" if "bad" in (each.level, found.get(each.agent)) else "warn"
    return found
