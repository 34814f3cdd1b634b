"""``pzc lock`` and ``pzc unlock``: nobody else works with an instrument while somebody does by hand."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..agents import Agent, lock, remote_of
from ..protocol.contents import as_table
from ..protocol.errors import CallTimeout, LockLost
from .options import Commands, add_agent, add_command, add_json, add_timeout, seconds
from .output import say, write_json, write_sentence, write_told
from .reaching import leased_agent, proxy_of
from .running import SIGNAL_LATENCY, Signals

_WHOSE = ("owner", "since")
TTL, LOOK = 30.0, 1.0
"""Seconds for which a lock outlives the command, by default, and between two looks at who holds it."""


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    holding = add_command(
        commands, "lock", run_lock, "keep everybody else off an instrument, until Ctrl-C",
        "pzc lock psu --reason 'I change the fuse'\n  pzc lock psu --for 600 --wait 60",
    )  # fmt: skip
    freeing = add_command(
        commands, "unlock", run_unlock, "take the lock away from whoever holds it; takes an admin key",
        "pzc unlock psu",
    )  # fmt: skip
    holding.add_argument("--reason", default="", metavar="TEXT", help="what those who are refused are told")
    holding.add_argument("--for", dest="period", type=seconds, metavar="S", help="seconds, else until Ctrl-C")
    holding.add_argument(
        "--wait", type=seconds, default=0.0, metavar="S", help="seconds to wait while somebody else has it"
    )
    holding.add_argument(
        "--ttl", type=seconds, default=TTL, metavar="S",
        help=f"seconds after which it is free when this command is gone; default {TTL:g}",
    )  # fmt: skip
    holding.add_argument(
        "--takeover", action="store_true", help="take it from whoever holds it; takes an admin key"
    )
    for parser in (holding, freeing):
        add_agent(parser)
        add_timeout(parser)
        add_json(parser)


def run_lock(args: argparse.Namespace) -> int:
    """``pzc lock``; returns when it was given back, fails when it was taken away."""
    signals = Signals()
    try:
        with leased_agent(args.timeout) as (agent, timeout), proxy_of(args.agent, args.timeout) as proxy:
            held = lock(proxy, args.ttl, wait=args.wait, reason=args.reason, takeover=args.takeover)
            with held:
                signals.interrupt = False
                remote_of(proxy).timeout = min(timeout, LOOK)  # nobody waits for a server that stands still
                # Before anybody is told: whoever takes it away from then on is noticed.
                mine = {**_holder(agent, args.agent, timeout), "owner": held.owner}
                _announce(args, held.owner)
                _hold(agent, args, signals, timeout, mine)
    finally:
        signals.interrupt = False
    return 0


def _announce(args: argparse.Namespace, owner: str) -> None:
    end = "until Ctrl-C" if args.period is None else f"for {args.period:g} s"
    told = {"agent": args.agent, "owner": owner, "reason": args.reason, "ttl": args.ttl}
    write_told(told, f"{args.agent} is locked by {owner}, {end}", args.json)


def _hold(
    agent: Agent, args: argparse.Namespace, signals: Signals, timeout: float, mine: Mapping[str, Any]
) -> None:
    pause, began = threading.Event(), time.monotonic()
    looked = began
    while not signals.came and (args.period is None or time.monotonic() < began + args.period):
        pause.wait(SIGNAL_LATENCY)
        if time.monotonic() > looked + LOOK:
            looked = time.monotonic()
            now: Mapping[str, Any] = mine
            with suppress(CallTimeout):  # a server that stands still gives the lock to nobody
                now = _holder(agent, args.agent, min(timeout, LOOK))
            if now != mine:
                raise LockLost(f"the lock of {args.agent} is now held by {_owner(now) or 'nobody'}")


def run_unlock(args: argparse.Namespace) -> int:
    """``pzc unlock``; nothing is done when nobody holds it."""
    with leased_agent(args.timeout) as (agent, timeout), proxy_of(args.agent, args.timeout) as proxy:
        owner = _owner(_holder(agent, args.agent, timeout))
        if owner:
            lock(proxy, takeover=True, reason="pzc unlock").release()
    if args.json:
        write_json({"agent": args.agent, "owner": owner or None})
    elif owner:
        write_sentence(f"{args.agent} is free; it was locked by {owner}")
    else:
        say(f"nobody has locked {args.agent}")
    return 0


def _holder(agent: Agent, target: str, timeout: float) -> Mapping[str, Any]:
    """What the server tells of who holds its lock; empty for nobody."""
    told = agent.request(agent.peer(target, timeout).endpoint, {"pzc": "statistics"}, timeout)
    held = as_table(told["calls"]["lock"])
    return {name: held[name] for name in _WHOSE if name in held}


def _owner(holder: Mapping[str, Any]) -> str:
    return str(holder.get("owner", ""))
