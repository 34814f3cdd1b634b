"""``pzc metrics``: what a lab does now, for those who watch it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..transport.endpoints import is_loopback
from .members import leased_agent
from .monitor.collector import PATIENCE, Collector
from .monitor.metrics import registry_of
from .options import Commands, add_command, add_every, add_json, add_timeout
from .output import say, write, write_json
from .running import SIGNAL_LATENCY, Signals
from .targets import UsageError

PORT = 9464
"""Where Prometheus asks by default."""


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    metrics = add_command(
        commands, "metrics", run_metrics, "tell Prometheus what agents do",
        "pzc metrics\n  pzc metrics psu dmm --port 9464\n  pzc metrics --once   (print them)",
    )  # fmt: skip
    add_agents(metrics)
    metrics.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen at; loopback")
    metrics.add_argument("--port", type=int, default=PORT, metavar="P", help=f"default {PORT}; 0: any")
    metrics.add_argument("--once", action="store_true", help="print the metrics and end")
    for option, meaning in (
        ("--certificate", "PEM file; off loopback needed, as the next two are"),
        ("--private-key", "PEM file of its key"),
        ("--client-ca", "PEM file: who signed the certificates of those who may ask"),
    ):
        metrics.add_argument(option, type=Path, metavar="FILE", help=meaning)
    add_every(metrics, "rounds")
    add_timeout(metrics, f"that one agent may take to answer; default {PATIENCE:g}")
    add_json(metrics)


def add_agents(parser: argparse.ArgumentParser) -> None:
    """Whom a monitor watches."""
    parser.add_argument(
        "agents", nargs="*", metavar="N", help="REP endpoint, name or pattern; default all that are found"
    )


def run_metrics(args: argparse.Namespace) -> int:
    """``pzc metrics``."""
    files: Sequence[Path | None] = (args.certificate, args.private_key, args.client_ca)
    if not args.once and not is_loopback(f"tcp://{args.host}:1") and not all(files):
        raise UsageError(
            f"{args.host} can be reached from other machines: give --certificate, --private-key and "
            "--client-ca, or let Prometheus run here"
        )
    with leased_agent(args.timeout) as (agent, _):
        collector = Collector(agent, args.agents, args.timeout or PATIENCE, args.every)
        try:
            registry: Any = registry_of(collector)
            collector.settle()
            if args.once:
                from prometheus_client import generate_latest

                collector.look()
                write(generate_latest(registry).decode().rstrip())
                return 0
            _serve(args, collector, registry)
        finally:
            collector.close()
    return 0


def _serve(args: argparse.Namespace, collector: Collector, registry: Any) -> None:
    from prometheus_client import start_http_server

    secure: dict[str, Any] = {}
    if args.certificate is not None:
        secure = {
            "certfile": str(args.certificate), "keyfile": str(args.private_key),
            "client_cafile": str(args.client_ca), "client_auth_required": True,
        }  # fmt: skip
    signals = Signals()
    server, thread = start_http_server(args.port, args.host, registry, **secure)
    try:
        signals.interrupt = False
        address = f"http{'s' * bool(secure)}://{args.host}:{server.server_port}/metrics"
        if args.json:
            write_json({"metrics": address})
        else:
            say(f"metrics at {address}, until Ctrl-C")
        collector.begin()
        while not signals.came:
            thread.join(SIGNAL_LATENCY)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
