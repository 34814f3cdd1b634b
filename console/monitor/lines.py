"""An agent as text: a row of a table, and lines; no screen is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...protocol.contents import as_table
from ...protocol.shown import plain
from ..rates import in_bytes
from ..values import age
from .watched import number, short

COLUMNS = ("agent", "state", "does", "calls/s", "topics", "rate/s", "dropped", "behind", "heard", "lock")
TOPICS = ("topic", "value", "rate/s", "bytes/s", "age", "dropped", "gaps", "readers")
"""Of the tables of agents, and of topics."""


def cells(told: dict[str, Any]) -> tuple[Any, ...]:
    """An agent as a row of the table, in terms that can be sorted."""
    topics = list(told.get("topics", {}).values())
    heard = told["heard_s"]
    return (
        told["agent"], state_of(told), told.get("does", told.get("error", "")),
        told.get("calls", {}).get("rate_hz", 0.0), len(topics),
        round(sum(topic["rate_hz"] for topic in topics), 1), sum(topic["dropped"] for topic in topics),
        told.get("behind", 0), float("inf") if heard is None else heard, told.get("holds", ""),
    )  # fmt: skip


def state_of(told: dict[str, Any]) -> str:
    """In one word, how an agent is: one that answers may be in trouble all the same."""
    if told["state"] != "well":
        return str(told["state"])
    return {"bad": "trouble", "warn": "look"}.get(told.get("trouble", ""), "well")


def topic_rows(told: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The topics of an agent as rows, by name; the columns are `TOPICS`."""
    return [
        (topic, about.get("error") or about.get("value", ""), f"{about['rate_hz']:.1f}",
         in_bytes(about["bytes_per_s"]), "" if about["age_s"] is None else age(about["age_s"]),
         about["dropped"], about.get("gaps", 0), readers_of(about))
        for topic, about in sorted(told.get("topics", {}).items())
    ]  # fmt: skip


def about_lines(told: dict[str, Any]) -> list[str]:
    """What an agent is and does, as lines of text."""
    names: list[str] = [name for name in (told["agent"], told["name"], told["endpoint"]) if name]
    title = " ".join(dict.fromkeys(names))
    if "calls" not in told:
        return [plain(f"{title}  {told.get('error', 'was not heard yet')}", keep="")]
    calls = told["calls"]
    rate = f"{calls['count']} ({calls['rate_hz']:.1f}/s)"
    busy = f"{calls['running']} running, {calls['waiting']} waiting"
    lines = [f"{title}  calls {rate}, {busy}  lock {told['holds'] or 'free'}"]
    if "error" in told:
        lines.append(f"  does not answer: {told['error']}")
    lines += [
        f"  {call['state']} {call['member']} for {age(call['since'])}, "
        f"of {call['caller'] or call['agent'][:8]}"
        for call in told["running"]
    ]
    lines += [f"  refused {count} ({reason}) in the last minute"
              for reason, count in told["refused"].items() if count]  # fmt: skip
    return [plain(line, keep="") for line in lines]


def readers_of(topic: dict[str, Any]) -> str:
    """How many agents read a topic, and the first of their names."""
    names = topic["readers"]
    shown = ", ".join([*names[:3], *["..."] * (len(names) > 3)])
    return f"{topic['subscribers']} ({shown})" if names else str(topic["subscribers"])


def all_lines(told: dict[str, Any]) -> list[str]:
    """All of an agent: what it does, its topics, its links, what it reads."""
    lines = about_lines(told)
    topics = [[*row[:1], told["topics"][row[0]]["published"], *row[1:]] for row in topic_rows(told)]
    lines += _table(("topic", "published", *TOPICS[1:]), topics)
    lines += _table(
        ("link to", "transport", "state", "sent", "rate/s", "unread", "leases", "p99 ms"),
        [
            (short(link.get("agent"))[:8], short(link.get("transport")), short(link.get("state")),
             _whole(link, "sent"), f"{number(link.get('rate_hz')):.1f}",
             _whole(link, "unacknowledged") + _whole(link, "waiting"), _whole(link, "leases"), _late(link))
            for link in told.get("links", ())
        ],
    )  # fmt: skip
    lines += _table(
        ("reads", "of", "transport", "received", "rate/s", "dropped", "p99 ms"),
        [
            (short(each.get("topic")), short(each.get("publisher"))[:8], short(each.get("transport")),
             _whole(each, "received"), f"{number(each.get('rate_hz')):.1f}", _whole(each, "dropped"),
             _late(each))
            for each in told.get("subscriptions", ())
        ],
    )  # fmt: skip
    return [plain(line, keep="") for line in lines]


def _whole(told: dict[str, Any], name: str) -> int:
    return int(number(told.get(name)))


def _late(told: dict[str, Any]) -> str:
    return f"{number(as_table(told.get('age')).get('p99')) * 1e3:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    if not rows:
        return []
    cells = [head, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return [
        "  " + "  ".join([f"{row[0]:<{widths[0]}}", *map(str.rjust, row[1:], widths[1:])]) for row in cells
    ]
