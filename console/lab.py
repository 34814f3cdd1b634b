"""``pzc up``, ``down``, ``status``, ``logs``, ``restart``, ``check``: a lab that stands in one file."""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import shorten
from typing import Any

from ..agents import Proxy, Server, close, lease
from ..lab import detached_program
from ..lab.file import DEFAULT, LabFile, located, read_lab
from ..lab.logs import LogReader
from ..lab.places import Places
from ..lab.supervisor import SETTLE, Supervisor
from ..lab.systemd import write_unit
from ..lab.units import ORDER, chosen, environment_of, units_of
from ..protocol.errors import PeerLost, PzcError
from ..protocol.shown import hint, plain
from ..transport.settings import load
from ..transport.wire import Protocol
from .following import in_words
from .monitor.collector import Collector
from .monitor.troubles import sorted_troubles, troubles_of
from .monitor.watched import Watched
from .options import Commands, add_command, add_json, positive
from .output import say, write, write_json, write_sentence
from .running import SIGNAL_LATENCY, Signals
from .tables import write_table
from .targets import UsageError
from .values import age

HEADINGS = ("NAME", "KIND", "STATE", "SINCE", "PID", "RESTARTS", "LOCK", "ENDPOINT", "DOES")
VERBS = ("up", "down", "status", "restart", "started")
WIDTH = 80
"""Characters of what a process does, at most; ``--json`` and ``pzc logs`` tell all."""

START, LOOK, ANSWER = 20.0, 0.1, 1.0


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    up = add_command(
        commands, "up", run_up, "start the servers, the recorder and the pipeline of a lab file",
        "pzc up\n  pzc up bench.toml psu dmm\n  pzc up --systemd   (at every start of the machine)",
    )  # fmt: skip
    up.add_argument("--foreground", action="store_true", help="stay, and end everything with Ctrl-C")
    up.add_argument("--systemd", action="store_true", help="write a unit for systemd instead of starting")
    down = add_command(commands, "down", run_down, "end what pzc up started", "pzc down\n  pzc down psu")
    status = add_command(
        commands, "status", run_status, "show what each process of a lab does, and why one does not run",
        "pzc status\n  pzc status bench.toml --json",
    )  # fmt: skip
    restart = add_command(
        commands, "restart", run_restart, "end processes of a lab and start them again", "pzc restart psu"
    )
    logs = add_command(commands, "logs", run_logs, "print what a process of a lab wrote", "pzc logs psu -f")
    check = add_command(
        commands, "check", run_check, "read a lab file without starting anything", "pzc check bench.toml"
    )
    for parser in (up, down, status, restart, logs, check):
        parser.add_argument(
            "words", nargs="*", metavar="[FILE] [NAME]",
            help=f"a lab file ends in .toml, default {DEFAULT}; names of its processes, default all",
        )  # fmt: skip
    logs.add_argument("-f", "--follow", action="store_true", help="print what comes, until Ctrl-C")
    logs.add_argument("-n", "--lines", type=positive, default=20, metavar="N", help="the last N; default 20")
    for parser in (up, status, check):
        add_json(parser)


def _split(words: Sequence[str]) -> tuple[Path, list[str]]:
    if words and words[0].endswith(".toml"):
        return Path(words[0]), list(words[1:])
    return Path(DEFAULT), list(words)


def run_up(args: argparse.Namespace) -> int:
    """``pzc up``; 0 when everything that was asked for runs."""
    path, names = _split(args.words)
    if args.systemd:
        unit = write_unit(read_lab(path))
        write(plain(f"{unit} is written; start the lab with", keep=""))
        write(f"  systemctl --user daemon-reload && systemctl --user enable --now {unit.name}")
        write("  loginctl enable-linger   (so that it runs while nobody is logged in)")
        return 0
    if args.foreground:
        _wanted(read_lab(path), names)
        return _supervise(located(path), names)
    return show(start(path, names), args.json)


def start(path: Path, names: list[str]) -> list[dict[str, Any]]:
    """Make a lab file true; returns when everything runs, or has failed once.

    Returns:
        The rows of ``pzc status``.

    Raises:
        ConfigError: for a file or a name that is wrong; nothing was started.
        PeerLost: when the lab does not start.
    """
    file = read_lab(path)
    wanted = _wanted(file, names)
    places = Places(path)
    places.make()
    first = places.free()
    if first:
        _start(located(path), places, names)
    with asked(places, _patience(path) + SETTLE * len(ORDER)) as lab:
        # Another `pzc up` may have come first meanwhile, and with other names.
        if not first or wanted - {row["name"] for row in lab.status()}:
            lab.up(names)
    return _rows(file, places, names)


def _wanted(file: LabFile, names: list[str]) -> set[str]:
    return {unit.name for unit in chosen(units_of(file), names)}


def _start(path: Path, places: Places, names: list[str]) -> None:
    """Start the supervisor as nobody's child, and wait until everything runs or has ended once."""
    log = places.log_of("lab")
    command = [sys.executable, "-P", "-m", "pzc", "up", "--foreground", str(path), *names]
    made = subprocess.run(
        [sys.executable, "-I", "-S", str(detached_program), str(log), *command],
        check=False, capture_output=True, timeout=START,
    )  # fmt: skip
    if made.returncode:
        why = made.stderr.decode(errors="replace").splitlines()[-1:]
        raise PeerLost(f"the lab did not start, {log} says nothing: {''.join(why)}")
    pid, begun, was_up, pause = int(made.stdout), time.monotonic(), False, threading.Event()
    while time.monotonic() < begun + START + SETTLE * len(ORDER):
        pause.wait(LOOK)
        over = _is_over(pid)
        is_up = not places.free()
        if not is_up and (was_up or over or time.monotonic() > begun + START):
            break
        was_up = is_up
        if is_up and _has_started(places):
            return
    raise PeerLost(f"the lab did not start; {log} says: {'; '.join(LogReader(log).last(3)) or 'nothing'}")


def _is_over(pid: int) -> bool:
    """Whether a process that lived has ended, as far as this system tells."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except (AttributeError, OSError):
        return False
    try:
        return bool(select.select([fd], [], [], 0)[0])
    finally:
        os.close(fd)


def _has_started(places: Places) -> bool:
    try:
        with asked(places, ANSWER) as lab:
            return lab.started()
    except PzcError:  # it is not bound yet, or ends again
        return False


def _supervise(path: Path, names: list[str]) -> int:
    places = Places(path)
    places.make()
    held = places.take()
    if held is None:
        raise UsageError(f"{path} is up already: pzc status {path}")
    signals = Signals()
    signals.interrupt = False
    supervisor = Supervisor(path, places, lambda: signals.came)
    socket = Path(places.endpoint.removeprefix("ipc://"))
    socket.unlink(missing_ok=True)
    try:
        with Server(
            supervisor, places.endpoint, protocol=Protocol(""), concurrency=4,
            discovery=False, single_port=True, expose=VERBS,
        ):  # fmt: skip
            try:
                supervisor.up(names)
                while not signals.came and not supervisor.wait_end(SIGNAL_LATENCY):
                    pass
            finally:
                supervisor.close()
    finally:
        socket.unlink(missing_ok=True)
        held.close()
    return 0


def run_down(args: argparse.Namespace) -> int:
    """``pzc down``; returns when it is done."""
    path, names = _split(args.words)
    places = Places(path)
    if places.free():
        _wanted(read_lab(path), names)
        say(f"the lab of {places.file} is not up: nothing to end")
        return 0
    with asked(places, _patience(path)) as lab:
        lab.down(names)
    deadline, pause = time.monotonic() + _patience(path), threading.Event()
    while not names and not places.free():
        if time.monotonic() > deadline:
            raise PeerLost(f"the lab of {path} did not end in time; see {places.log_of('lab')}")
        pause.wait(LOOK)
    return 0


def _patience(path: Path) -> float:
    """Seconds in which everything of a lab can end."""
    try:
        grace = read_lab(path).lab.grace
    except PzcError:
        grace = 10.0
    return 3 * grace + START


def run_status(args: argparse.Namespace) -> int:
    """``pzc status``; 0 when everything runs."""
    path, names = _split(args.words)
    file = read_lab(path)
    return show(_rows(file, Places(path), names), args.json)


def run_restart(args: argparse.Namespace) -> int:
    """``pzc restart``; 0 when everything that was meant runs, else as ``pzc status``."""
    path, names = _split(args.words)
    with asked(Places(path), _patience(path)) as lab:
        lab.restart(names)
        if all(row["state"] == "running" for row in lab.status() if not names or row["name"] in names):
            return 0
    file = read_lab(path)
    return show(_rows(file, Places(path), names), as_json=False)


def run_check(args: argparse.Namespace) -> int:
    """``pzc check``."""
    path, names = _split(args.words)
    file = read_lab(path)
    units = chosen(units_of(file), names)
    if file.pipeline is not None and file.pipeline.limits and any(unit.kind == "pipeline" for unit in units):
        from ..pipeline.alarm_rules import checked_rules

        checked_rules(file.folder / file.pipeline.limits)
    if args.json:
        for unit in units:
            write_json({**unit._asdict(), "command": unit.command})
    else:
        write_sentence(f"{path}: {', '.join(unit.name for unit in units)}")
    return 0


def run_logs(args: argparse.Namespace) -> int:
    """``pzc logs``; with ``--follow`` until Ctrl-C."""
    path, names = _split(args.words)
    known = ["lab", *(unit.name for unit in units_of(read_lab(path)))]
    if len(names) != 1:
        raise UsageError(f"expected one name out of {', '.join(known)}")
    if names[0] not in known:
        raise UsageError(f"the lab has no {names[0]}; {hint(names[0], known)}")
    reader, pause = LogReader(Places(path).log_of(names[0])), threading.Event()
    lines: Iterable[str] = reader.last(args.lines)
    if not lines:
        say(f"{names[0]} has written nothing yet")
    while True:
        for line in lines:
            write(plain(line, keep="\t"))
        if not args.follow:
            return 0
        pause.wait(SIGNAL_LATENCY)
        lines = reader.more()


@contextmanager
def asked(places: Places, timeout: float) -> Generator[Any]:
    """The supervisor of a lab.

    Raises:
        ConfigError: when the lab is not up, and its file cannot be read.
        PeerLost: when the lab is not up.
    """
    if places.free():
        read_lab(places.file)
        named = "" if places.file == located(Path(DEFAULT)) else f" {places.file}"
        raise PeerLost(f"the lab of {places.file} is not up: pzc up{named} starts it")
    proxy = Proxy(places.endpoint, protocol=Protocol(""), timeout=timeout)
    try:
        yield proxy
    finally:
        close(proxy)


def _rows(file: LabFile, places: Places, names: list[str]) -> list[dict[str, Any]]:
    """What the supervisor knows of each process, and what each server says of itself.

    For no names of all, also of those that run and are gone from the file.
    """
    wanted = _wanted(file, names)
    with asked(places, START) as lab:
        rows = [dict(row) for row in lab.status() if not names or row["name"] in wanted]
    missing = [unit for unit in units_of(file) if unit.name in wanted - {row["name"] for row in rows}]
    rows += [
        {"name": unit.name, "kind": unit.kind, "state": "stopped", "since": None, "pid": 0, "restarts": 0,
         "endpoint": "", "address": "", "due": 0.0, "last": ""} for unit in missing
    ]  # fmt: skip
    running = [row["endpoint"] for row in rows if row["state"] == "running" and row["endpoint"]]
    agent, release = lease(Protocol(settings=load({**os.environ, **environment_of(file)})))
    collector = Collector(agent, running or ["none"], ANSWER)
    try:
        if running:
            collector.look()
        with collector.state() as state:
            for row in rows:
                row.update(_told(row, state.agents.get(row["endpoint"])))
    finally:
        collector.close()
        release()
    return rows


def _told(row: Mapping[str, Any], watched: Watched | None) -> dict[str, Any]:
    """``does``, ``lock`` and ``troubles`` of one process: its own words, else why it does not run."""
    if row["state"] != "running" or watched is None:
        return {"does": _why(row), "lock": "", "troubles": []}
    troubles = [trouble.words for trouble in sorted_troubles(troubles_of(watched, time.monotonic()))]
    if not watched.answers:
        return {"does": f"does not answer: {watched.error}", "lock": "", "troubles": troubles}
    does = watched.does() if row["kind"] == "server" else f"{watched.behind} notifications behind"
    return {"does": does, "lock": watched.holds(), "troubles": troubles}


def _why(row: Mapping[str, Any]) -> str:
    last = str(row["last"]).removeprefix("pzc: ")
    if row["kind"] == "pipeline" and row["state"] == "running":
        with suppress(ValueError, TypeError, KeyError):  # until its first batch
            return in_words(json.loads(last))
    if row["state"] == "starting" and row["restarts"] and last:
        return f"starts again after: {last}"
    return f"again in {row['due']:.0f} s: {last}" if row["state"] == "waiting" else last


def show(rows: list[dict[str, Any]], as_json: bool) -> int:
    """Print rows of ``pzc status``; 0 when everything runs."""
    if as_json:
        for row in rows:
            write_json(row)
    else:
        _show_table(rows)
    return 0 if all(row["state"] == "running" for row in rows) else 1


def _show_table(rows: list[dict[str, Any]]) -> None:
    write_table(
        HEADINGS,
        [
            (
                row["name"], row["kind"], row["state"], age(row["since"]), str(row["pid"] or ""),
                str(row["restarts"] or ""), row["lock"], row["endpoint"] or row["address"],
                shorten(row["does"], WIDTH),
            )
            for row in rows
        ],
        spare=("PID", "KIND", "RESTARTS"),
    )  # fmt: skip
    for row in rows:
        if row["state"] in ("waiting", "failed"):
            say(f"{row['name']} does not run; pzc logs {row['name']} tells more")
        if row["state"] == "starting":
            say(f"{row['name']} takes longer to start; pzc status tells when it runs")
