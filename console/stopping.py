"""``pzc running``, ``cancel`` and ``stop``: what runs at a server, for whom, since when, and its end."""

from __future__ import annotations

import argparse
import threading
import time

from ..agents import Agent, Proxy, Running, cancel, cancel_of_key, running
from ..protocol.errors import CallTimeout, PzcError
from ..transport.peer import Peer
from .options import Commands, add_agent, add_command, add_json, add_timeout
from .output import say, write, write_json
from .reaching import leased_agent, meet, proxy_of
from .tables import write_table
from .targets import UsageError

ANSWER, LOOK = 1.0, 0.1
"""Seconds that a ping may take, and between two looks at whether something has ended."""

ENDING = 1.0
"""Seconds in which a call that was told to end is expected to."""

HEADINGS = ("MEMBER", "STATE", "SINCE", "CALLER", "AGENT", "ID")


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    listing = add_command(
        commands, "running", run_running, "list what runs and waits at a server", "pzc running psu"
    )
    ending = add_command(
        commands, "cancel", run_cancel, "call off what was asked for with this key",
        "pzc cancel psu\n  pzc cancel psu b69c   (one call, by a part of its id)\n"
        "  pzc cancel psu --everybody",
    )  # fmt: skip
    stopping = add_command(
        commands, "stop", run_stop, "end a server, or any agent; takes an admin key", "pzc stop psu"
    )
    for parser in (listing, ending, stopping):
        add_agent(parser)
        add_timeout(parser)
        add_json(parser)
    ending.add_argument(
        "id", nargs="?", default="", metavar="ID", help="of a call, as pzc running tells it, or a part of it"
    )
    ending.add_argument(
        "--everybody", action="store_true", help="the calls of all others, too; takes an admin key"
    )


def run_running(args: argparse.Namespace) -> int:
    """``pzc running``."""
    with proxy_of(args.agent, args.timeout) as proxy:
        calls = running(proxy)
    if args.json:
        for call in calls:
            write_json(call._asdict())
        return 0
    if not calls:
        say(f"nothing runs at {args.agent}")
        return 0
    rows = [
        (
            c.member,
            f"{c.state}, told to end" if c.cancelled else c.state,
            f"{c.since:.1f} s",
            c.caller or "-",
            c.agent[:8],
            c.id.removeprefix("urn:uuid:"),
        )
        for c in calls
    ]
    write_table(HEADINGS, rows)
    return 0


def run_cancel(args: argparse.Namespace) -> int:
    """``pzc cancel``; status 1 when there was no such call."""
    if args.id and args.everybody:
        raise UsageError("either an ID or --everybody")
    with proxy_of(args.agent, args.timeout) as proxy:
        if args.id:
            count = cancel(proxy, call=_whole(proxy, args.id))
        else:
            count = cancel(proxy, everybody=True) if args.everybody else cancel_of_key(proxy)
        left = _left(proxy) if count else []
    if args.json:
        write_json({"cancelled": count, "running": [call.member for call in left]})
    elif not left or count > len(left):
        ended = count - len(left)
        write(f"{ended} call{'' if ended == 1 else 's'} cancelled")
    for call in left:
        say(f"{call.member} was told to end, and goes on: it ends where its code asks pzc.cancelled()")
    if args.id and not count:
        say(f"no call {args.id} runs or waits at {args.agent}: pzc running {args.agent}")
    return 1 if args.id and not count else 0


def _left(proxy: Proxy) -> list[Running]:
    """The calls that were told to end and go on, after a moment in which they may end."""
    deadline, pause = time.monotonic() + ENDING, threading.Event()
    while left := [call for call in running(proxy) if call.cancelled]:
        if time.monotonic() > deadline:
            break
        pause.wait(LOOK)
    return left


def run_stop(args: argparse.Namespace) -> int:
    """``pzc stop``; returns when it has ended."""
    with leased_agent(args.timeout) as (agent, timeout):
        peer = meet(agent, args.agent, args.timeout)
        agent.request(peer.endpoint, "stop", timeout)
        deadline, pause = time.monotonic() + timeout, threading.Event()
        while _answers(agent, peer):
            if time.monotonic() > deadline:
                raise CallTimeout(f"{args.agent} was told to stop, and still answers after {timeout:g} s")
            pause.wait(LOOK)
    if args.json:
        write_json({"endpoint": peer.endpoint, "agent_id": peer.agent_id, "name": peer.name})
    else:
        say(f"{args.agent} has stopped")
    return 0


def _answers(agent: Agent, peer: Peer) -> bool:
    try:
        agent.request(peer.endpoint, "ping", ANSWER)
    except PzcError:
        return False
    return True


def _whole(proxy: Proxy, part: str) -> str:
    """The id with this part; as it is when none has it.

    Raises:
        UsageError: when several have it.
    """
    found = [call.id for call in running(proxy) if part in call.id]
    if len(found) > 1 and part not in found:
        raise UsageError(f"{len(found)} calls have {part} in their ids: {', '.join(found)}")
    return found[0] if len(found) == 1 else part
