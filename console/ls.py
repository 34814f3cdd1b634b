"""``pzc ls``: who and what is there, by name."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import Any

from ..agents import acquire, hear, obstacles, release
from ..discovery.events import Process
from ..discovery.names import Pattern
from ..discovery.records import Entry
from ..discovery.site import parse_peers
from ..transport.settings import load
from .options import Commands, add_command, add_json, seconds
from .output import say, write_json
from .tables import write_table
from .values import age

LISTEN = 1.0
"""Seconds; whoever is there answers within 0.1, and says something within one."""

HEADINGS = ("name", "kind", "type", "address", "where", "age", "source")


def add_commands(commands: Commands) -> None:
    """Add the command of this module."""
    parser = add_command(
        commands, "ls", run_ls, "list the agents, or topics, that can be found by name",
        "pzc ls\n  pzc ls 'cam*' --topics",
    )  # fmt: skip
    parser.add_argument(
        "pattern",
        nargs="?",
        default="*",
        help="of names: 'cam*', '/lab/**', '@sim@/**' in another partition; default all; quote it",
    )
    parser.add_argument("--topics", action="store_true", help="list topics instead of agents")
    parser.add_argument(
        "--timeout", type=seconds, default=LISTEN, metavar="S", help=f"seconds to listen; default {LISTEN:g}"
    )
    add_json(parser)


def run_ls(args: argparse.Namespace) -> int:
    """``pzc ls``; nothing found is no error."""
    settings = load()
    partition, pattern = _placed(args.pattern, settings["PZC_PARTITION"])
    fits = Pattern(pattern)
    participant = acquire(partition)
    try:
        hear(participant, pattern, args.timeout)
        found, hindered = participant.match(pattern), obstacles(participant)
        processes = {process.process: process for process in participant.processes()}
        refused = participant.statistics()["last_refused"]
    finally:
        release(participant)
    rows = [_told(entry, processes) for entry in found if (entry.kind == "topic") == args.topics]
    if not args.topics and partition == settings["PZC_PARTITION"]:
        static = parse_peers(settings["PZC_PEERS"])
        rows += [_static(name, endpoint) for name, endpoint in static.items() if fits.matches(f"/{name}")]
    if args.json:
        for row in rows:
            write_json(row)
    else:
        _write(rows)
    for sentence in hindered:
        say(sentence)
    for reason, detail in refused.items():
        say(f"somebody was heard and refused ({reason.replace('_', ' ')}): {detail}; see pzc doctor")
    return 0


def _placed(pattern: str, partition: str) -> tuple[str, str]:
    """Partition and pattern of ``@PARTITION@/PATTERN``; of any other pattern the given partition."""
    named, at, rest = pattern.removeprefix("@").partition("@")
    return (named, rest) if pattern.startswith("@") and at else (partition, pattern)


def _told(entry: Entry, processes: dict[bytes, Process]) -> dict[str, Any]:
    process = processes.get(entry.process)
    return {
        "name": entry.name,
        "kind": entry.kind,
        "type": entry.type,
        "addresses": list(entry.addresses),
        "pub_addresses": list(entry.pub_addresses),
        "agent_id": entry.agent,
        "partition": entry.partition,
        "host": entry.host,
        "pid": entry.pid,
        "scope": entry.scope,
        "policies": list(entry.policies),
        "dialects": list(entry.dialects),
        "metadata": entry.metadata,
        "age_s": max(0.0, time.time() - entry.started / 1000) if entry.started else None,
        "sources": ["local"] if process is None else list(process.sources),
    }


def _static(name: str, endpoint: str) -> dict[str, Any]:
    return {**_told(Entry("agent", name, addresses=(endpoint,), dialects=()), {}), "sources": ["static"]}


def _write(rows: list[dict[str, Any]]) -> None:
    if not rows:
        say("nobody was found; pzc doctor tells what may be in the way")
        return
    labelled = any(row["metadata"] for row in rows)
    write_table(
        (*HEADINGS, "metadata") if labelled else HEADINGS,
        [(*_cells(row), _metadata(row)) if labelled else _cells(row) for row in rows],
        spare=("source", "kind", "age"),
    )


def _metadata(row: dict[str, Any]) -> str:
    return " ".join(f"{name}={text}" for name, text in row["metadata"].items())


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    where = f"{row['host']} {row['pid']}" if row["host"] else ""
    address = row["addresses"][0] if row["addresses"] else "not from here"
    sources = ",".join(row["sources"])
    return row["name"], row["kind"], row["type"], address, where, age(row["age_s"]), sources


def names_of(entries: Iterable[Entry], namespace: str) -> list[str]:
    """How each entry may be called on a command line."""
    inside = f"/{namespace.strip('/')}/" if namespace.strip("/") else "/"
    found: list[str] = []
    for entry in entries:
        found += [entry.name, entry.name.removeprefix("/"), f"@{entry.partition}@{entry.name}"]
        if entry.name.startswith(inside):
            found.append(entry.name.removeprefix(inside))
    return found
