"""How fast each policy goes over each carrier, and what that costs: ``python -m benchmarks.rates``.

One process publishes as fast as it can for a moment, another one reads; inside a process both are one. What
was received and what is told as lost must be what was published. docs/notifications-performance.md says more.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.children import ROUND_TIMEOUT, START_TIMEOUT, Child, ChildFailure, environment
from benchmarks.command import ended
from benchmarks.machine import Load, describe
from benchmarks.rates_end import POLICIES
from benchmarks.tables import table

SIZES = {"64 B": 64, "4 KiB": 1 << 12, "40 KiB": 40 << 10, "1 MiB": 1 << 20}

CARRIERS: dict[str, dict[str, Any]] = {
    "inproc": {"transport": "inproc"}, "unix": {"transport": "unix"}, "tcp": {"transport": "tcp", "key": ""},
    "broadcast": {"transport": "tcp"},
}  # fmt: skip
"""What `Agent.subscribe` is told, by the name of the carrier."""

NEVER = {("inproc", "mailbox"), ("broadcast", "block"), ("broadcast", "mailbox")}
"""What no policy can have."""

SETTLE = 20.0
"""Seconds after which what has not come, and is not told as lost, is called missing."""

HEADINGS = (
    "size", "carrier", "policy", "published/s", "longest publish, ms", "received/s", "lost",
    "publisher, CPU µs", "reader, CPU µs per received", "reader is done after, ms",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        size: name of one of `SIZES`.
        carrier: name of one of `CARRIERS`.
        policy: name of one of `POLICIES`.
    """

    size: str
    carrier: str
    policy: str


@dataclass(frozen=True)
class Measured:
    """What came of a case: seconds, and processor time in seconds.

    Attributes:
        published, received, lost: how many.
        took: the time of publishing.
        longest: of a single `publish`.
        after: from the last publication until the last one arrived; negative when it is lost.
        publisher: its processor time while it published; inside a process that of both.
        reader: its processor time; 0 inside a process.
    """

    published: int
    received: int
    lost: int
    took: float
    longest: float
    after: float
    publisher: float
    reader: float

    @property
    def missing(self) -> int:
        """What neither came nor is told as lost."""
        return self.published - self.received - self.lost


def cases(words: Sequence[str]) -> Iterator[Case]:
    """Those with all of these words."""
    for size in SIZES:
        for carrier in CARRIERS:
            for policy in POLICIES:
                names = {size.replace(" ", ""), carrier, policy}
                if (carrier, policy) not in NEVER and names.issuperset(words):
                    yield Case(size, carrier, policy)


class Team:
    """A publisher and a reader, in processes of their own; leaving the stack ends them."""

    def __init__(self, stack: ExitStack, key: str) -> None:
        variables = environment(key, {})
        self._publisher, self._reader = (
            stack.enter_context(Child("rates_end", environment=variables)) for _ in range(2)
        )
        self._address = _ask(self._publisher, START_TIMEOUT, do="open")["address"]
        self._topics = 0

    def measure(self, case: Case, seconds: float) -> Measured:
        """Publish for so long, and wait until the reader has accounted for all of it."""
        self._topics += 1
        topic, inside = f"rates{self._topics}", case.carrier == "inproc"
        reader = self._publisher if inside else self._reader
        _ask(
            reader, do="subscribe", address=self._address, topic=topic, policy=case.policy,
            options=CARRIERS[case.carrier],
        )  # fmt: skip
        before = _ask(reader, do="count")
        told = _ask(self._publisher, do="flood", topic=topic, size=SIZES[case.size], seconds=seconds)
        found, deadline = _ask(reader, do="count"), time.monotonic() + SETTLE
        while found["received"] + found["dropped"] < told["published"] and time.monotonic() < deadline:
            time.sleep(0.05)
            found = _ask(reader, do="count")
        _ask(reader, do="close")
        used = found["used"] - before["used"]
        return Measured(
            told["published"], found["received"], found["dropped"], told["took"], told["longest"],
            found["came"] - told["began"] - told["took"], told["used"], 0.0 if inside else used,
        )  # fmt: skip


def _ask(child: Child, timeout: float = ROUND_TIMEOUT, **line: Any) -> dict[str, Any]:
    child.send(**line)
    return child.receive(timeout)


def row(case: Case, found: Measured) -> list[str]:
    """A line of the table."""
    lost = f"{found.lost / max(1, found.published):.0%}" if found.lost else "-"
    return [
        case.size, case.carrier, case.policy,
        f"{found.published / found.took:,.0f}",
        f"{found.longest * 1e3:.1f}",
        f"{found.received / (found.took + max(0.0, found.after)):,.0f}",
        f"{lost}, {found.missing} MISSING" if found.missing else lost,
        f"{found.publisher / max(1, found.published) * 1e6:.1f}",
        f"{found.reader / max(1, found.received) * 1e6:.1f}" if found.reader else "in it",
        f"{max(0.0, found.after) * 1e3:.0f}",
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rates", description="Rates of notifications, by policy, carrier and size."
    )
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="only rows with all of these: unix, block, 40KiB, …"
    )
    parser.add_argument("--seconds", type=float, default=0.5, metavar="S", help="of each row; default 0.5")
    args = parser.parse_args()
    chosen, load, rows, missing = [*cases(args.words)], Load(), list[list[str]](), 0
    if not chosen:
        parser.error(f"no row has all of these: {' '.join(args.words)}")
    try:
        with ExitStack() as stack:
            team = Team(stack, secrets.token_hex(16))
            for case in chosen:
                found = team.measure(case, args.seconds)
                missing += found.missing != 0
                rows.append(row(case, found))
                print(".", end="", file=sys.stderr, flush=True)
    except ChildFailure as exc:
        print(f"\n{exc}", file=sys.stderr)
        return 1
    machine = describe(("pzc", "pyzmq"))
    print(f"\n{machine['date']}, {machine['cores']} cores; {load.text()}\n\n{table(HEADINGS, rows)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(ended(main))
