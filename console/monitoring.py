"""``pzc monitor`` and ``pzc metrics``: what a lab does now, in a browser and for Prometheus."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from ..lab.file import DEFAULT
from ..protocol.errors import ConfigError
from ..protocol.keyring import read_private
from ..transport.endpoints import is_loopback
from ..transport.wire import Protocol
from .monitor.arguments import add_watched, collecting
from .monitor.collector import Collector
from .monitor.feeds import following
from .monitor.metrics import registry_of
from .monitor.processes import Processes
from .monitor.web.access import TOKEN, VIEWER, Access, User
from .monitor.web.serving import Place, listen, operator, run, serve
from .options import Commands, add_command, add_listening
from .output import say, write, write_json
from .running import Signals
from .targets import UsageError

PORT = 9464
"""Where Prometheus asks by default."""

PAGE = 8470
"""Where the page is by default."""


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    monitor = add_command(
        commands, "monitor", run_monitor, "show the lab in a browser: troubles, agents, their values",
        "pzc monitor\n  pzc monitor --operator alice=alice.keyring   (alice may set, call and lock)",
    )  # fmt: skip
    add_watched(monitor)
    add_listening(monitor, PAGE)
    monitor.add_argument(
        "--operator", action="append", default=[], metavar="NAME=KEYRING",
        help="who may set, call and lock, signing with the keyring's key; several times",
    )  # fmt: skip
    _add_lab(monitor)
    monitor.add_argument("--audit", type=Path, metavar="FILE", help="write who did what, a line of JSON each")
    for option, meaning in (
        ("--tokens", "lines of NAME TOKEN, mode 600; default: new tokens at every start"),
        ("--certificate", "PEM file; off loopback needed, as the next one is"),
        ("--private-key", "PEM file of its key"),
    ):
        monitor.add_argument(option, type=Path, metavar="FILE", help=meaning)
    monitor.add_argument(
        "--name", action="append", default=[], metavar="HOST",
        help="by which browsers reach it, as in https://HOST:PORT; several times",
    )  # fmt: skip
    metrics = add_command(
        commands, "metrics", run_metrics, "tell Prometheus what agents do",
        "pzc metrics\n  pzc metrics psu dmm --port 9464\n  pzc metrics --once   (print them)",
    )  # fmt: skip
    add_watched(metrics)
    add_listening(metrics, PORT)
    _add_lab(metrics)
    metrics.add_argument("--once", action="store_true", help="print the metrics and end")
    for option, meaning in (
        ("--certificate", "PEM file; off loopback needed, as the next two are"),
        ("--private-key", "PEM file of its key"),
        ("--client-ca", "PEM file: who signed the certificates of those who may ask"),
    ):
        metrics.add_argument(option, type=Path, metavar="FILE", help=meaning)


def _add_lab(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lab", type=Path, metavar="FILE", help="lab file; default lab.toml if it is here")


def _watch_lab(lab: Path | None, collector: Collector) -> None:
    """Have the collector ask for the processes of a lab file, if there is one.

    Raises:
        UsageError: when the one that was asked for is not there.
    """
    if lab is not None and not lab.is_file():
        raise UsageError(f"there is no lab file {lab}")
    found = lab or Path(DEFAULT)
    if found.exists():
        collector.after.append(Processes(collector, found).look)


def run_monitor(args: argparse.Namespace) -> int:
    """``pzc monitor``."""
    local = is_loopback(f"tcp://{args.host}:1")
    secure = args.certificate is not None and args.private_key is not None
    if (args.certificate is None) != (args.private_key is None):
        raise UsageError("--certificate and --private-key belong together")
    if not local and not secure:
        raise UsageError(
            f"{args.host} can be reached from other machines, and whoever listens could read tokens: "
            "give --certificate and --private-key, or stay at 127.0.0.1"
        )
    place = Place(args.host, args.port, args.certificate, args.private_key)
    operators = _operators(args.operator)
    tokens = _tokens(args.tokens, operators, local)
    with collecting(args) as collector, closing(listen(place)) as listener:
        _watch_lab(args.lab, collector)
        hosts = _hosts(args.host, args.name, listener.getsockname()[1])
        access = Access(
            {token: User(name, name in operators) for name, token in tokens.items()},
            None if tokens else User(VIEWER), hosts, secure,
        )  # fmt: skip
        _announce(args, f"{place.scheme}://{hosts[0]}/", tokens)
        signals = Signals()
        signals.interrupt = False
        serve(place, listener, collector, access, operators, args.audit, lambda: signals.came)
    return 0


def _operators(given: Sequence[str]) -> dict[str, Protocol]:
    found: dict[str, Protocol] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (name and equals and path) or name in found:
            raise UsageError(f"--operator {text}: expected NAME=KEYRING, each name once")
        found[name] = operator(Path(path))
    return found


def _tokens(path: Path | None, operators: Mapping[str, Protocol], local: bool) -> dict[str, str]:
    """The token of each user; none when anybody of this machine may look, and nobody acts."""
    found: dict[str, str] = {}
    if path is not None:
        for line in read_private(path, f"tokens {path}").splitlines():
            name, _, token = line.strip().partition(" ")
            if name and len(token.strip()) < TOKEN:
                raise ConfigError(f"{path}: the token of {name} has less than {TOKEN} characters")
            if name:
                found[name] = token.strip()
    for name in operators:
        found.setdefault(name, secrets.token_urlsafe(32))
    if not local and not found:
        found[VIEWER] = secrets.token_urlsafe(32)
    return found


def _hosts(host: str, names: Sequence[str], port: int) -> list[str]:
    """``host:port`` by which browsers ask, the one that is shown first."""
    everywhere = host in ("0.0.0.0", "::")
    if everywhere and not names:
        raise UsageError(f"{host} is no name that a browser can ask for: give --name HOST")
    own = ["127.0.0.1", "localhost", "::1"] if is_loopback(f"tcp://{host}:1") else []
    found: list[str] = [*names, *([] if everywhere else [host]), *own]
    return [f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in dict.fromkeys(found)]


def _announce(args: argparse.Namespace, address: str, tokens: Mapping[str, str]) -> None:
    addresses = {name: f"{address}#token={token}" for name, token in tokens.items()}
    if args.json:
        write_json({"monitor": address, "users": addresses})
        return
    say(f"the lab is at {address}, until Ctrl-C")
    for name, own in addresses.items():
        say(f"{name} opens {own}")


def run_metrics(args: argparse.Namespace) -> int:
    """``pzc metrics``."""
    files: Sequence[Path | None] = (args.certificate, args.private_key, args.client_ca)
    if not args.once and not is_loopback(f"tcp://{args.host}:1") and not all(files):
        raise UsageError(
            f"{args.host} can be reached from other machines: give --certificate, --private-key and "
            "--client-ca, or let Prometheus run here"
        )
    with collecting(args) as collector:
        _watch_lab(args.lab, collector)
        registry: Any = registry_of(collector)
        collector.settle()
        if args.once:
            from prometheus_client import generate_latest

            collector.look()
            write(generate_latest(registry).decode().rstrip())
        else:
            with following(collector):
                _serve(args, collector, registry)
    return 0


def _serve(args: argparse.Namespace, collector: Collector, registry: Any) -> None:
    from prometheus_client import make_asgi_app  # pyright: ignore[reportUnknownVariableType]

    local = is_loopback(f"tcp://{args.host}:1")
    place = Place(args.host, args.port, args.certificate, args.private_key, args.client_ca)
    signals = Signals()
    with closing(listen(place, "metrics")) as listener:
        from .monitor.web.app import Guard

        signals.interrupt = False
        port = listener.getsockname()[1]
        # Elsewhere whoever asks has a certificate, which no page of another name has.
        access = Access(
            {}, User(VIEWER), _hosts(args.host, (), port) if local else (), place.scheme == "https"
        )
        address = f"{place.scheme}://{args.host}:{port}/metrics"
        if args.json:
            write_json({"metrics": address})
        else:
            say(f"metrics at {address}, until Ctrl-C")
        collector.begin()
        run(Guard(cast("Any", make_asgi_app(registry)), access), place, listener, lambda: signals.came)
