"""``pzc registry``: tells processes of each other where multicast does not reach; keeps the topic graph."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

from ..agents import Registry
from ..transport.endpoints import reached_here
from .options import Commands, add_command, add_endpoint_file, add_json
from .output import write_told
from .running import Signals, serve_until_told

ENDPOINT = "tcp://127.0.0.1:10318"
"""Where a registry is bound by default: for this machine only."""


def add_commands(commands: Commands) -> None:
    """Add the command of this module."""
    registry = add_command(
        commands, "registry", run_registry,
        "tell processes of each other where multicast does not reach, and keep the graph of connected topics",
        "pzc registry --bind tcp://10.0.0.2:10318 --state /var/lib/pzc/registry.json\n"
        "  PZC_REGISTRY=tcp://10.0.0.2:10318 pzc ls",
    )  # fmt: skip
    registry.add_argument(
        "--bind", default=ENDPOINT, metavar="EP", help=f"where processes ask; default {ENDPOINT}"
    )
    registry.add_argument("--name", default="registry", help="how it calls itself; default registry")
    registry.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="keep the connections of topics in this file; default: nowhere",
    )
    add_endpoint_file(registry)
    add_json(registry)


def run_registry(args: argparse.Namespace) -> int:
    """``pzc registry``; returns when it was stopped."""
    signals = Signals()
    if own := reached_here(args.bind):
        os.environ.setdefault("PZC_REGISTRY", own)  # so that its own name is found through it, too
    registry = Registry(args.bind, name=args.name, state=args.state)
    try:
        serve_until_told(registry, signals, args.endpoint_file, partial(_announce, registry, args.json))
    finally:
        signals.interrupt = False
        registry.stop()
    return 0


def _announce(registry: Registry, as_json: bool) -> None:
    names = ("name", "rep_endpoint", "pub_endpoint", "agent_id", "pid", "signed")
    about = registry.describe()
    told = {**{name: about[name] for name in names}, **registry.topics.status}
    signed = "signed" if registry.protocol.signed else "unsigned"
    count = len(registry.topics.connections())
    text = (
        f"{registry.name} is a registry at {registry.rep_endpoint}, {count} connections of topics, {signed}"
    )
    write_told(told, f"{text}; set PZC_REGISTRY={registry.rep_endpoint} for every process", as_json)
