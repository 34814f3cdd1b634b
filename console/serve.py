"""``pzc serve``: an object of any importable class as a server."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..agents import Server
from ..protocol.shown import hint
from ..transport.endpoints import RANDOM_TCP
from .options import Commands, add_command, add_endpoint_file, add_json
from .output import write_told
from .running import Signals, serve_until_told
from .targets import UsageError, parse_arguments

logger = logging.getLogger("pzc.serve")

_MISSING = object()


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    serve = add_command(
        commands, "serve", run_serve, "make an object and serve it until Ctrl-C, SIGTERM or a remote stop",
        "pzc serve mylab:PowerSupply TCPIP::10.0.0.7::INSTR timeout=2.0 --name psu --bind tcp://127.0.0.1:5555",
    )  # fmt: skip
    serve.add_argument("factory", metavar="MODULE:CLASS", help="importable, also from the working directory")
    serve.add_argument("arguments", nargs="*", metavar="[K=]V", help="of the class: Python literals or text")
    serve.add_argument("--name", help="how the agent calls itself")
    serve.add_argument(
        "--remap", action="append", default=[], metavar="OLD:=NEW",
        help="use the name NEW in the place of OLD; may be given several times",
    )  # fmt: skip
    serve.add_argument("--bind", default=RANDOM_TCP, metavar="EP", help=f"REP endpoint; default {RANDOM_TCP}")
    serve.add_argument(
        "--pub", metavar="EP", help="PUB endpoint; default beside --bind: any free port, or IPC_PATH.pub"
    )
    serve.add_argument("--stream", default="", metavar="EP", help="TCP port of streams; default any free one")
    serve.add_argument(
        "--single-port",
        action="store_true",
        default=None,
        help="open no port but that of the REP endpoint, for NAT and firewalls; default PZC_SINGLE_PORT",
    )
    serve.add_argument("--expose", metavar="A,B", help="serve these members only; default every public one")
    serve.add_argument(
        "--concurrency", type=int, default=1, metavar="N",
        help="calls at a time, if it is thread-safe; default 1",
    )  # fmt: skip
    serve.add_argument(
        "--thread-affine", action="store_true", help="every call in one and the same thread, for such drivers"
    )
    serve.add_argument(
        "--reads-while-locked", action="store_true", help="let others read while somebody holds the lock"
    )
    serve.add_argument("--urgent", metavar="A,B", help="methods that never wait for their turn: off,abort")
    serve.add_argument("--reading", metavar="A,B", help="methods that keys of role observer may call")
    serve.add_argument(
        "--concurrent", metavar="A,B", action="append", default=[],
        help="members that may run beside a running call: position; may be given several times",
    )  # fmt: skip
    serve.add_argument(
        "--on-cancel", metavar="A=B", action="append", default=[],
        help="call method B when a call of A was cancelled; may be given several times",
    )  # fmt: skip
    serve.add_argument(
        "--poll", metavar="A=S", action="append", default=[],
        help="read member A every S seconds (1s, 100ms) and publish it; may be given several times",
    )  # fmt: skip
    serve.add_argument("--audit", type=Path, metavar="PATH", help="write one JSON line per call to this file")
    add_endpoint_file(serve)
    add_json(serve)


def run_serve(args: argparse.Namespace) -> int:
    """``pzc serve``; returns when the server was stopped."""
    positional, keywords = parse_arguments(args.arguments)
    expose = None if args.expose is None else _names(args.expose)
    poll = {member: _seconds(period, member) for member, period in _pairs(args.poll, "--poll", "voltage=1s")}
    on_cancel = dict(_pairs(args.on_cancel, "--on-cancel", "ramp=off"))
    signals = Signals()
    factory = find_factory(args.factory)
    _check_arguments(factory, args.factory, positional, keywords)
    server = Server(
        None,
        args.bind,
        args.pub or pub_beside(args.bind),
        name=args.name,
        expose=expose,
        concurrency=args.concurrency,
        thread_affine=args.thread_affine,
        reads_while_locked=args.reads_while_locked,
        audit=args.audit,
        single_port=args.single_port,
        remap=args.remap,
        urgent=_names(args.urgent or ""),
        reading=_names(args.reading or ""),
        concurrent=_names(",".join(args.concurrent)),
        on_cancel=on_cancel,
        poll=poll,
        stream=args.stream,
    )
    try:
        _make(server, factory, positional, keywords)
        serve_until_told(server, signals, args.endpoint_file, partial(_announce, server, args.json))
    finally:
        signals.interrupt = False
        server.stop()
    return 0


def _make(
    server: Server, factory: Callable[..., object], positional: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    try:
        server.serve_object(factory, positional, keywords)
    except SystemExit as exc:
        raise RuntimeError(f"the served object was not made: its code called exit({exc.code})") from exc


def _pairs(texts: list[str], option: str, example: str) -> list[tuple[str, str]]:
    """Of ``A=B``, or several with commas between."""
    found: list[tuple[str, str]] = []
    for each in [each for text in texts for each in _names(text)]:
        left, sign, right = each.partition("=")
        if not (left.strip() and sign and right.strip()):
            raise UsageError(f"{option} {each}: expected two words with '=' between, such as {example}")
        found.append((left.strip(), right.strip()))
    return found


def _seconds(text: str, member: str) -> float:
    for unit, factor in (("ms", 0.001), ("min", 60.0), ("s", 1.0), ("h", 3600.0), ("", 1.0)):
        if text.endswith(unit):
            with contextlib.suppress(ValueError):
                return float(text.removesuffix(unit)) * factor
    raise UsageError(f"--poll {member}={text}: expected a time such as 1s, 100ms or 2min")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def find_factory(text: str) -> Callable[..., object]:
    """The class or function of ``module:Class``; the working directory is searched first.

    Raises:
        UsageError: for another form, or something that cannot be called.
        ImportError: saying what failed while importing.
    """
    module_name, colon, path = text.partition(":")
    if not (colon and all(part.isidentifier() for part in [*module_name.split("."), *path.split(".")])):
        raise UsageError(f"{text!r} is not MODULE:CLASS, such as mylab.psu:PowerSupply")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as exc:
        absent = isinstance(exc, ModuleNotFoundError) and module_name.startswith(exc.name or ".")
        todo = (
            f"; it is looked for in {os.getcwd()}, in PYTHONPATH and among what is installed"
            if absent
            else ""
        )
        raise ImportError(f"cannot import {module_name}: {type(exc).__name__}: {exc}{todo}") from exc
    for name in path.split("."):
        inside = found
        found = getattr(inside, name, _MISSING)
        if found is _MISSING:
            known = [each for each in dir(inside) if callable(getattr(inside, each, None)) and each[0] != "_"]
            raise ImportError(f"module {module_name} has no {path}; {hint(name, known)}")
    if not callable(found):
        raise UsageError(f"{text} is no class or function, but {type(found).__name__}")
    return found


def _check_arguments(
    factory: Callable[..., object], text: str, positional: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError) as exc:
        logger.debug("arguments of %s cannot be checked beforehand: %s", text, exc)
        return
    try:
        signature.bind(*positional, **keywords)
    except TypeError as exc:
        raise UsageError(f"{text}{signature} does not take these arguments: {exc}") from exc


def pub_beside(rep_endpoint: str) -> str:
    """A PUB endpoint that whoever reaches the REP endpoint can reach as well."""
    if rep_endpoint.startswith("tcp://"):
        return f"{rep_endpoint.rpartition(':')[0]}:0"
    return f"{rep_endpoint}.pub"


def _announce(server: Server, as_json: bool) -> None:
    kind = type(server.served_object).__name__
    names = ("name", "serves", "rep_endpoint", "pub_endpoint", "agent_id", "pid", "signed")
    about = server.describe()
    signed = "signed" if server.protocol.signed else "unsigned"
    places = f"at {server.rep_endpoint}, publishes at {server.pub_endpoint or 'the same port'}"
    sentence = f"{server.name or kind} serves {kind} {places}, {signed}"
    write_told({name: about[name] for name in names}, sentence, as_json)
