"""``pzc journal``: what is in a journal, before anything is made of it."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..transport.settings import load
from .options import Commands, add_command, add_json
from .output import say, write, write_json, write_sentence
from .pipeline import write_cells

if TYPE_CHECKING:
    from ..pipeline.recording.inspecting import Inspection, Topic

HEADINGS = ("agent", "topic", "rows", "missing", "repeated", "starts", "keys", "first", "last")
FACTS = ("segments", "rows", "size", "blobs", "blob_size", "recorders", "lost", "damaged", "strays")
KINDS = 20
"""Kinds of refused rows, and names of what is no journal's, that are printed."""


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    group = add_command(
        commands, "journal", run_info, "tell what is in a journal, or verify all of it",
        "pzc journal info /data/journal\n  pzc journal verify /data/journal",
    )  # fmt: skip
    jobs = group.add_subparsers(metavar="JOB", required=True, dest="job")
    info = add_command(
        jobs, "info", run_info, "spans, topics, counts, keys, sizes and gaps",
        "pzc journal info /data/journal",
    )  # fmt: skip
    verify = add_command(
        jobs, "verify", run_verify, "the same, with every signature, content and blob looked at",
        "pzc journal verify /data/journal",
    )  # fmt: skip
    for parser in (info, verify):
        parser.add_argument("journal", type=Path, metavar="JOURNAL", help="directory of the journal")
        add_json(parser)


def run_info(args: argparse.Namespace) -> int:
    """``pzc journal info``; fails when a segment cannot be read."""
    from ..pipeline.recording.inspecting import inspect

    return _tell(args, inspect(args.journal))


def run_verify(args: argparse.Namespace) -> int:
    """``pzc journal verify``; fails when a segment cannot be read, or a row does not verify or decode."""
    from ..pipeline.decoding.decode import make_decoder
    from ..pipeline.recording.inspecting import inspect

    return _tell(args, inspect(args.journal, make_decoder(load().keyring(), journal=args.journal)))


def _tell(args: argparse.Namespace, found: Inspection) -> int:
    if args.json:
        write_json(_facts(found))
    else:
        _show(args.journal, found)
    for file, reason in found.damaged.items():
        say(reason if file in reason else f"{file}: {reason}")
    if found.strays:
        more = f" and {len(found.strays) - KINDS} more" if len(found.strays) > KINDS else ""
        say(f"passed over, as no journal has them: {', '.join(found.strays[:KINDS])}{more}")
    return 0 if found.ok else 1


def _facts(found: Inspection) -> dict[str, Any]:
    told: dict[str, Any] = {name: getattr(found, name) for name in FACTS}
    told["topics"] = [
        {**vars(topic), "keys": sorted(topic.keys), "first": _time(topic.first), "last": _time(topic.last)}
        for topic in found.topics
    ]
    if found.refused is not None:
        names = ("name", "topic", "error", "reason")
        told["refused"] = [
            {**dict(zip(names, kind, strict=True)), "count": count}
            for kind, count in found.refused.most_common()
        ]
    return told


def _show(journal: Path, found: Inspection) -> None:
    recorders = ", ".join(f"{rows} of {name}" for name, rows in sorted(found.recorders.items()))
    segments = f"{found.segments} segment{'' if found.segments == 1 else 's'}"
    write_sentence(
        f"{journal}: {found.rows} rows ({recorders or 'none'}) in {segments}, {found.size / 1e6:.1f} MB"
    )
    if found.blobs:
        write(f"{found.blobs} blobs, {found.blob_size / 1e6:.1f} MB")
    if found.topics:
        write_cells(HEADINGS, [_row(topic) for topic in found.topics])
    for reason, count in sorted(found.lost.items()):
        if count:  # how much a restart cost is not known
            write(f"{count} notifications are known to be missing: {reason}")
    if found.refused is None:
        return
    refused = found.refused.most_common()
    write(f"{found.rows - sum(found.refused.values())} rows verified, {sum(found.refused.values())} did not")
    if refused:
        rows = [(*kind, count) for kind, count in refused[:KINDS]]
        write_cells(("agent", "topic", "error", "reason", "rows"), rows)
    if len(refused) > KINDS:
        say(f"there are {len(refused) - KINDS} more kinds; --json prints all")


def _row(topic: Topic) -> tuple[object, ...]:
    keys = " ".join(sorted(key or "unsigned" for key in topic.keys))
    first, last = _time(topic.first), _time(topic.last)
    counts = topic.rows, topic.missing, topic.repeated, topic.starts
    return topic.name or topic.publisher, topic.topic, *counts, keys, first, last


def _time(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1e6, UTC)
