"""What many keys of a mailbox cost: connections, memory, time; and what stays when they are closed.

``python -m benchmarks.mailbox_keys`` starts a publisher and a subscriber for each row. The subscriber makes
one subscription for each key, of one policy and one callback, and in further rows one subscription of all
keys. docs/notifications-performance.md says more.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.children import ROOT, START_TIMEOUT, Child, ChildFailure, environment
from benchmarks.command import ended
from benchmarks.machine import Load, describe
from benchmarks.mailbox_keys_end import WARM_UP
from benchmarks.tables import replace_part, table

FILL_TIMEOUT = 1200.0
LONE = 50
"""Messages to one key each, by which the time of one is measured."""

TRACED = 10_000
"""Most keys of which the allocations are traced as well, which is slow."""

PAGE = ROOT / "docs" / "notifications-performance.md"
HEADINGS = (
    "keys", "subscriptions", "transport", "TCP connections", "subscriber, B/key", "publisher, B/key",
    "subscriber, B/key, after a message each", "publisher, B/kept message", "subscribe", "one key more",
    "publish to callback", "calls in a publish", "close", "left after closing",
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """One row: bytes by RSS, seconds.

    Attributes:
        keys: how many.
        one: whether they are one subscription.
        way: the transport that was asked for.
        connections: between the two processes, with all keys.
        subscriber: bytes per key.
        publisher: bytes per key.
        used: of the subscriber, bytes per key when each has had a message.
        kept: of the publisher, bytes per message that waits.
        together: to subscribe, by several threads or at once, per key.
        cpu: of that, processor time of the subscriber.
        alone: to subscribe to one key more, with the others there; None when it is not measured.
        lone: from a publication to one key until its callback.
        calls: Python functions that the publishing thread calls for it.
        close: to close, per key.
        left: bytes of both processes after closing, above those before.
        entries: keys that are known anywhere after closing.
    """

    keys: int
    one: bool
    way: str
    connections: int
    subscriber: float
    publisher: float
    used: float
    kept: float
    together: float
    cpu: float
    alone: float | None
    lone: float
    calls: float
    close: float
    left: int
    entries: int


class Pair:
    """A publisher's and a subscriber's process.

    Args:
        stack: ends them.
        way: the transport that the subscriber asks for.
        traced: measure by Python's own allocator.
    """

    def __init__(self, stack: ExitStack, way: str, traced: bool) -> None:
        variables = environment(secrets.token_hex(16), {"PZC_DISCOVERY_IP": "off"})
        options = ("traced",) if traced else ()
        self._figure = "traced" if traced else "rss"
        self.publisher = stack.enter_context(
            Child("mailbox_keys_end", "publisher", *options, environment=variables)
        )
        address = self.publisher.receive(START_TIMEOUT)["address"]
        self.subscriber = stack.enter_context(
            Child("mailbox_keys_end", address, way, *options, environment=variables)
        )
        self.subscriber.receive(START_TIMEOUT)

    @staticmethod
    def ask(child: Child, do: str, **fields: Any) -> dict[str, Any]:
        """What a child answers."""
        child.send(do=do, **fields)
        return child.receive(FILL_TIMEOUT)

    def bytes_of(self, answer: dict[str, Any]) -> int:
        """Of a process."""
        return answer[self._figure]

    def until(self, wanted: int, figure: str) -> dict[str, Any]:
        """The publisher's memory once it has so many of something."""
        deadline = time.monotonic() + FILL_TIMEOUT
        while (now := self.ask(self.publisher, "look"))[figure] != wanted:
            if time.monotonic() > deadline:
                raise ChildFailure(f"{now[figure]} {figure} at the publisher, not {wanted}")
            time.sleep(0.05)
        return now


def measure(keys: int, one: bool, way: str, traced: bool) -> Measured:
    """One row."""
    with ExitStack() as stack:
        pair = Pair(stack, way, traced)
        ask, publisher, subscriber = pair.ask, pair.publisher, pair.subscriber
        total = WARM_UP + keys
        ask(subscriber, "begin", keys=WARM_UP)
        for number in range(WARM_UP):
            ask(publisher, "publish", key=number)
        ask(subscriber, "receive", count=WARM_UP, forget=True)
        before = pair.bytes_of(ask(subscriber, "look")), pair.bytes_of(pair.until(0, "waiting"))
        filled = ask(subscriber, "fill_one" if one else "fill", first=WARM_UP, last=total)
        looked, there = ask(subscriber, "look"), pair.until(total, "entries")
        ages, calls = list[float](), list[int]()
        for turn in range(LONE):
            calls.append(ask(publisher, "publish", key=WARM_UP + turn * (keys // LONE))["calls"])
            ages.append(ask(subscriber, "receive", count=1, forget=True)["age"])
        resting = pair.bytes_of(pair.until(0, "waiting"))
        os.kill(subscriber.pid, signal.SIGSTOP)
        try:
            kept = ask(publisher, "spread", keys=total)
        finally:
            os.kill(subscriber.pid, signal.SIGCONT)
        if kept["waiting"] != total:
            raise ChildFailure(f"{kept['waiting']} of {total} messages were kept")
        ask(subscriber, "receive", count=total, forget=True)
        pair.until(0, "waiting")
        used = ask(subscriber, "look")
        closed = ask(subscriber, "close", keys=total)
        after = pair.until(1, "entries")
        left = ask(subscriber, "look")
        return Measured(
            keys=keys,
            one=one,
            way=way,
            connections=looked["connections"],
            subscriber=(pair.bytes_of(filled) - before[0]) / keys,
            publisher=(pair.bytes_of(there) - before[1]) / keys,
            used=(pair.bytes_of(used) - before[0]) / keys,
            kept=(pair.bytes_of(kept) - resting) / total,
            together=filled["together"],
            cpu=filled["cpu"],
            alone=filled.get("alone"),
            lone=statistics.median(ages),
            calls=statistics.median(calls),
            close=closed["seconds"],
            left=pair.bytes_of(left) + pair.bytes_of(after) - sum(before),
            entries=left["entries"] - 1 + after["entries"] - 1,
        )


def row(found: Measured, traced: Measured | None) -> list[str]:
    """One line of the table."""

    def both(name: str) -> str:
        second = "" if traced is None else f" ({getattr(traced, name):.0f})"
        return f"{getattr(found, name):.0f}{second}"

    left = f"{found.left / (1 << 20):.1f} MiB"
    if traced is not None:
        left += f" ({traced.left / (1 << 20):.1f})"
    alone = "-" if found.alone is None else f"{found.alone * 1e6:.0f} µs"
    return [
        f"{found.keys}", "one" if found.one else "one each", found.way, f"{found.connections}",
        both("subscriber"), both("publisher"), both("used"), both("kept"),
        f"{found.together * 1e6:.0f} µs, CPU {found.cpu * 1e6:.0f} µs", alone,
        f"{found.lone * 1e6:.0f} µs", f"{found.calls:.0f}", f"{found.close * 1e6:.0f} µs",
        f"{left}, {found.entries} keys",
    ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 when everything could be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mailbox_keys", description=__doc__)
    parser.add_argument("--keys", type=int, action="append", help="default 1000, 10 000 and 100 000")
    parser.add_argument("--way", action="append", choices=("tcp", "auto"), help="default both")
    parser.add_argument("--one", action="store_true", help="only the rows of one subscription")
    parser.add_argument("--quick", action="store_true", help="without the second run that traces allocations")
    parser.add_argument("--update-docs", action="store_true", help=f"rewrite that part of {PAGE.name}")
    options = parser.parse_args(arguments)
    if min(options.keys or [LONE]) < LONE:
        parser.error(f"--keys must be at least {LONE}")
    machine, load, rows = describe(("pzc", "pyzmq")), Load(), list[list[str]]()
    for keys in options.keys or [1000, 10_000, 100_000]:
        each = [] if options.one else [(way, False) for way in options.way or ["tcp", "auto"]]
        for way, one in [*each, ((options.way or ["tcp"])[0], True)]:
            found = measure(keys, one, way, traced=False)
            twice = way == "tcp" and keys <= TRACED and not options.quick
            traced = measure(keys, one, way, traced=True) if twice else None
            rows.append(row(found, traced))
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    where = (
        f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, {machine['kernel']}; {versions}; "
        f"{load.text()}."
    )
    text = f"{where}\n\n{table(HEADINGS, rows)}"
    print(text)
    if options.update_docs:
        replace_part(PAGE, "mailbox keys", text)
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
