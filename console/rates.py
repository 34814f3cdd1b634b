"""``pzc hz`` and ``pzc bw``: how often an agent publishes, and how much."""

from __future__ import annotations

import argparse
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from ..agents import Agent, Subscription
from ..agents.notification import Notification
from ..delivery.interests import ALL
from ..delivery.meters import Intervals
from ..delivery.policies import drop
from ..protocol.errors import PolicyRefused, ReceiveTimeout
from ..transport.settings import TRANSPORTS
from .members import known_names
from .options import Commands, add_command, add_every, add_json, add_timeout, positive, seconds
from .output import say, write, write_json
from .reaching import leased_agent, meet
from .running import turns
from .targets import split_topic
from .watch import check_topic

WINDOW = 10.0
"""Seconds that are looked at."""

UNREAD = 100_000
"""Notifications that may wait to be counted; what comes then is counted as lost."""

Report = Callable[[], dict[str, Any]]
Line = Callable[[dict[str, Any]], str]


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    hz = add_command(
        commands, "hz", run_hz, "print how often a topic comes, each second, until Ctrl-C",
        "pzc hz camera/frames\n  pzc hz camera/frames --count 1 --window 30 --json",
    )  # fmt: skip
    bw = add_command(
        commands, "bw", run_bw, "print how many bytes of a topic come, each second, until Ctrl-C",
        "pzc bw camera/frames\n  pzc bw 'camera/*' --transport unix --count 5",
    )  # fmt: skip
    for parser in (hz, bw):
        parser.add_argument("target", metavar="N/TOPIC", help="agent and topic; N/* for all of its topics")
        parser.add_argument("-n", "--count", type=positive, metavar="N", help="end after so many lines")
        parser.add_argument(
            "--window", type=seconds, default=WINDOW, metavar="S",
            help=f"seconds that are looked at, default {WINDOW:g}",
        )  # fmt: skip
        parser.add_argument(
            "--transport", choices=TRANSPORTS, help="how notifications come; default PZC_TRANSPORT, else auto"
        )
        add_every(parser, "lines")
        add_timeout(parser, "to subscribe; default PZC_TIMEOUT, else 30")
        add_json(parser)


def run_hz(args: argparse.Namespace) -> int:
    """``pzc hz``."""
    pace = Pace(args.window)
    return _run(args, pace.add, pace.tell, hz_line)


def run_bw(args: argparse.Namespace) -> int:
    """``pzc bw``."""
    flow = Flow(args.window)
    return _run(args, flow.add, flow.tell, bw_line)


def _run(args: argparse.Namespace, add: Callable[[Notification], None], tell: Report, line: Line) -> int:
    target, topic = split_topic(args.target, known_names(args.target, "/"))
    with leased_agent(args.timeout) as (agent, timeout), ExitStack() as stack:
        meet(agent, target, args.timeout)
        subscription = stack.enter_context(_subscribed(agent, target, topic, add, timeout, args.transport))
        topic = subscription.topic
        if topic != ALL:
            check_topic(agent, target, topic, timeout)
        for _ in turns(args.count, args.every, first=args.every):
            lost = {"topic": topic, "gaps": len(subscription.gaps), "lost": subscription.dropped}
            told = {**lost, **tell()}
            (write_json(told) if args.json else write(line(told)))
        if not subscription.received:
            raise ReceiveTimeout(
                f"no notification of {args.target} came within {args.count * args.every:g} s"
            )
    return 0


@contextmanager
def _subscribed(
    agent: Agent, target: str, topic: str, add: Callable[[Notification], None], timeout: float,
    transport: str | None,
) -> Generator[Subscription]:  # fmt: skip
    subscribe = partial(
        agent.subscribe, target, topic, add, policy=drop(UNREAD), timeout=timeout, transport=transport
    )
    try:  # what is only counted need not be decoded
        subscription = subscribe(raw=True)
    except PolicyRefused:
        subscription = subscribe()
    with subscription:
        subscription.on_lost = say
        yield subscription


class Pace:
    """Times between notifications, by their arrival; added to and asked by two threads.

    Args:
        window: seconds that are looked at.
        clock: gives the time of day, as notifications have it.
    """

    def __init__(self, window: float, clock: Callable[[], float] = time.time) -> None:
        self._lock, self._clock = threading.Lock(), clock
        self._intervals = Intervals(window)

    def add(self, notification: Notification) -> None:
        """One more."""
        with self._lock:
            self._intervals.add(notification.received_at)

    def tell(self) -> dict[str, Any]:
        """What came in the window that ends now."""
        with self._lock:
            self._intervals.forget(self._clock())
            told = self._intervals.tell()
        return told._asdict()


def hz_line(told: dict[str, Any]) -> str:
    """A line of ``pzc hz``."""
    if told["messages"] < 2:
        return f"{told['messages']} messages, no rate yet{_lost(told)}"
    return (
        f"{told['rate_hz']:.3f} Hz  min {told['min_s'] * 1e3:.3f} ms  max {told['max_s'] * 1e3:.3f} ms  "
        f"std {told['std_s'] * 1e3:.3f} ms  {told['messages']} messages{_lost(told)}"
    )


def _lost(told: dict[str, Any]) -> str:
    return f"  {told['lost']} lost in {told['gaps']} gaps" if told["lost"] or told["gaps"] else ""


class Flow:
    """Sizes of notifications; added to and asked by two threads.

    Args:
        window: seconds that are looked at.
        clock: gives the time of day, as notifications have it.
    """

    def __init__(self, window: float, clock: Callable[[], float] = time.time) -> None:
        self._window = window
        self._lock, self._clock = threading.Lock(), clock
        self._began = clock()
        self._sizes: deque[tuple[float, int]] = deque(maxlen=UNREAD)

    def add(self, notification: Notification) -> None:
        """One more."""
        with self._lock:
            self._sizes.append((notification.received_at, notification.size))

    def tell(self) -> dict[str, Any]:
        """What came in the window that ends now."""
        now = self._clock()
        with self._lock:
            # What is later came before the clock was set back.
            while self._sizes and not now - self._window <= self._sizes[0][0] <= now:
                self._sizes.popleft()
            entries = list(self._sizes)
        self._began = min(self._began, entries[0][0] if entries else now)
        since = max(self._began, now - self._window)
        if len(entries) == UNREAD:  # the window holds more than was remembered
            since = entries[0][0]
        sizes = [size for _, size in entries]
        return {
            "messages": len(sizes), "bytes_per_s": sum(sizes) / max(now - since, 1e-3),
            "mean_bytes": sum(sizes) / len(sizes) if sizes else 0.0,
            "min_bytes": min(sizes, default=0), "max_bytes": max(sizes, default=0),
        }  # fmt: skip


def bw_line(told: dict[str, Any]) -> str:
    """A line of ``pzc bw``."""
    if not told["messages"]:
        return f"0 messages{_lost(told)}"
    return (
        f"{in_bytes(told['bytes_per_s'])}/s  mean {in_bytes(told['mean_bytes'])}  "
        f"min {in_bytes(told['min_bytes'])}  max {in_bytes(told['max_bytes'])}  "
        f"{told['messages']} messages{_lost(told)}"
    )


def in_bytes(size: float) -> str:
    """A number of bytes for people, in powers of 1000."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
