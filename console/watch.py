"""``pzc watch``: the notifications of an agent, as they come."""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ..agents import Agent, Notification, Subscription
from ..agents.reply import Reply
from ..delivery.cursor import Cursor, Gap
from ..delivery.interests import ALL
from ..protocol.contents import as_table, ps_message, read_ps_message
from ..protocol.errors import LocalProtocolError, MemberRefused, ReceiveTimeout
from ..protocol.paths import parse, to_wire
from ..protocol.shown import hint, plain
from ..transport.peer import Peer
from .members import known_names
from .options import Commands, add_command, add_json, add_timeout, positive
from .output import is_told, say, write, write_json
from .reaching import leased_agent, meet
from .running import SIGNAL_LATENCY
from .targets import split_topic
from .values import to_line

SILENCE = 1.0
"""Seconds without a notification after which a terminal is told what is waited for."""


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    watch = add_command(
        commands, "watch", run_watch, "print notifications with time, sequence and content, until Ctrl-C",
        "pzc watch psu/voltage_changed --count 10\n  pzc watch 'psu/*' --json",
    )  # fmt: skip
    watch.add_argument("target", metavar="N/TOPIC", help="agent and topic; N/* for all of its topics")
    watch.add_argument("-n", "--count", type=positive, metavar="N", help="end after so many notifications")
    add_timeout(watch, "to watch in all; with --count, fewer notifications by then are an error")
    add_json(watch)


def run_watch(args: argparse.Namespace) -> int:
    """``pzc watch``."""
    target, topic = split_topic(args.target, known_names(args.target, "/"))
    deadline = None if args.timeout is None else time.monotonic() + args.timeout
    with leased_agent(args.timeout) as (agent, timeout):
        meet(agent, target, args.timeout)
        with agent.subscribe(target, topic, timeout=timeout, must_exist=True) as subscription:
            topic = subscription.topic
            subscription.on_lost = say
            if topic != ALL:
                check_topic(agent, target, topic, timeout)
            printer = Printer(args.json, with_topic=topic == ALL)
            for notification in _received(subscription, target, args, deadline):
                printer.show(notification)
            unsaid = subscription.dropped - printer.lost
        if unsaid > 0:
            say(f"{unsaid} more of {topic} were lost, before the first or after the last one shown")
    return 0


def _received(
    subscription: Subscription, target: str, args: argparse.Namespace, deadline: float | None
) -> Iterator[Notification]:
    """Until Ctrl-C, the deadline, or as many as are wanted.

    Raises:
        ReceiveTimeout: fewer than are wanted came in time.
    """
    number, silent_until = 0, time.monotonic() + SILENCE
    while args.count is None or number < args.count:
        now = time.monotonic()
        if not number and now >= silent_until and is_told():
            say(f"nothing of {target}/{subscription.topic} yet; waiting, Ctrl-C ends it")
            silent_until = math.inf
        # Ctrl-C does not end a wait for a lock on Windows.
        left = SIGNAL_LATENCY if deadline is None else min(SIGNAL_LATENCY, max(0.0, deadline - now))
        try:
            with subscription.recv_zero_copy(left) as notification:
                number += 1
                yield notification
        except ReceiveTimeout:
            if deadline is None or now < deadline:
                continue
            if args.count is None:
                return
            text = f"{number} of {args.count} notifications of {subscription.topic} came"
            raise ReceiveTimeout(f"{text} within {args.timeout:g} s") from None


def check_topic(agent: Agent, target: str, topic: str, timeout: float) -> None:
    """Say so when a server has no such signal: a misspelt topic would stay silent for ever.

    Nobody waits for the answer, which comes after the calls that the server is busy with.
    """
    peer = agent.peer(target, timeout)
    owner, _, name = topic.rpartition(".")
    if "serves" in peer.details and topic not in _published(agent, peer, timeout):
        with suppress(LocalProtocolError, MemberRefused):  # of a topic that is no path
            options = {"on": to_wire(parse(owner))} if owner else {}
            asked = agent.exchange_later(peer, ps_message("describe", options), timeout)
            asked.add_done_callback(partial(_warn_about_topic, target, name))


def _published(agent: Agent, peer: Peer, timeout: float) -> Mapping[str, Any]:
    """Topics that it has published so far, such as what it polls; it answers at once, whatever runs."""
    return as_table(agent.request(peer.endpoint, {"pzc": "statistics"}, timeout).get("topics"))


def _warn_about_topic(target: str, topic: str, asked: Future[Reply]) -> None:
    if asked.cancelled() or asked.exception() is not None:
        return
    message = read_ps_message(asked.result().content)
    if message is None or message[0] != "return":
        return
    table = as_table(as_table(message[1]).get("members"))
    signals = [name for name, about in table.items() if as_table(about).get("kind") == "signal"]
    if topic not in signals:
        told = hint(topic, signals, otherwise="it has:")
        say(f"{target} has no signal {topic!r} ({told}); waiting for notifications all the same")


class Printer:
    """Prints notifications, and what is missing between them.

    Args:
        as_json: as JSON, one object per line.
        with_topic: put the topic on each line of text.

    Attributes:
        lost: how many notifications were missing so far.
    """

    def __init__(self, as_json: bool, with_topic: bool) -> None:
        self._as_json = as_json
        self._with_topic = with_topic
        self._cursors: defaultdict[str, Cursor] = defaultdict(Cursor)
        self.lost = 0

    def show(self, notification: Notification) -> None:
        """Print a notification, after the gap before it if there is one; errors as `write`."""
        if notification.sequence:
            gap = self._cursors[notification.topic].observe(notification.epoch, notification.sequence)[1]
            if gap is not None:
                self._show_gap(notification.topic, gap)
        if self._as_json:
            write_json(_fields(notification))
        else:
            write(self._line(notification))

    def _show_gap(self, topic: str, gap: Gap) -> None:
        self.lost += gap.count
        if self._as_json:
            told = {"first": gap.first, "last": gap.last, "count": gap.count, "restarted": gap.restarted}
            write_json({"topic": topic, "epoch": gap.epoch, "gap": told})
        elif gap.restarted:
            write(plain(f"gap: the publisher of {topic} was restarted", keep=""))
        else:
            write(plain(f"gap: {gap.count} of {topic} lost, {gap.first} to {gap.last}", keep=""))

    def _line(self, notification: Notification) -> str:
        sent = datetime.fromtimestamp(notification.sent_at, UTC).astimezone()
        parts = [sent.isoformat(" ", "milliseconds")]
        if self._with_topic:
            parts.append(notification.topic)
        if notification.key:
            parts.append(f"[{notification.key}]")
        return plain("  ".join([*parts, str(notification.sequence), to_line(notification.content)]), keep="")


def _fields(notification: Notification) -> dict[str, Any]:
    names = ("publisher", "name", "topic", "key", "sequence", "epoch", "sent_at", "received_at", "content")
    return {name: getattr(notification, name) for name in names}
