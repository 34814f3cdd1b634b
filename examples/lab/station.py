"""One process of the demo's lab: ``python -m examples.lab.station psu --ready-file FILE``.

A station is found by its name. It serves or publishes until its standard input ends, which also happens when
the program that started it is killed; so no station outlives the demo.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pzc import Agent, Server

SUBSCRIBERS = 2
"""A publishing station begins when the recorder and the client have subscribed."""


def write_atomically(path: Path, content: object) -> None:
    """Write JSON so that a reader sees all of it or nothing."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(content))
    os.replace(temporary, path)


def watch_input(stop: threading.Event) -> None:
    """Set ``stop`` when standard input ends or the process is asked to terminate."""
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        stop.set()

    threading.Thread(target=watch, name="watch-input", daemon=True).start()


def serve_psu(args: argparse.Namespace, stop: threading.Event) -> dict[str, Any]:
    from .psu import PowerSupply

    with PowerSupply() as supply, Server(supply, name="psu") as server:
        write_atomically(args.ready_file, server.name)
        stop.wait()
        return {topic: row["published"] for topic, row in server.statistics()["topics"].items()}


def publishing(topic: str, run: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """A station that publishes one topic at a steady rate."""

    def station(args: argparse.Namespace, stop: threading.Event) -> dict[str, Any]:
        with Agent(name=args.instrument) as agent:
            write_atomically(args.ready_file, agent.name)
            while not stop.is_set() and not agent.wait_for_subscribers(topic, SUBSCRIBERS, timeout=0.2):
                pass
            tally = run(args, agent.publish, stop)
            write_atomically(args.result_file, {topic: tally.published})
            stop.wait()
            return {topic: tally.published}

    return station


def run_host(args: argparse.Namespace, publish: Callable[..., Any], stop: threading.Event) -> Any:
    from .host import Host

    return Host().run(publish, stop, rate_hz=20.0, count=int(args.seconds * 20))


def run_co2(args: argparse.Namespace, publish: Callable[..., Any], stop: threading.Event) -> Any:
    from .co2 import Co2Analyser

    analyser = Co2Analyser()
    return analyser.run(publish, stop, rate_hz=len(analyser.record()) / args.seconds)


def run_camera(args: argparse.Namespace, publish: Callable[..., Any], stop: threading.Event) -> Any:
    from .camera import Camera

    return Camera().run(publish, stop, rate_hz=20.0, count=int(args.seconds * 20))


def record(args: argparse.Namespace, stop: threading.Event) -> dict[str, Any]:
    from pzc.pipeline.recording.recorder import Recorder

    with Recorder(args.journal, args.publishers, max_age=2.0) as recorder:
        write_atomically(args.ready_file, recorder.agent.name)
        stop.wait()
        drained = recorder.drain()
        statistics = recorder.statistics()
    return {**statistics, "drained": drained, "durable": recorder.journal.durable_offset + 1}


INSTRUMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "psu": serve_psu,
    "host": publishing("host", run_host),
    "co2": publishing("co2", run_co2),
    "camera": publishing("frame", run_camera),
    "recorder": record,
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instrument", choices=INSTRUMENTS)
    parser.add_argument("--ready-file", type=Path, required=True, help="written when it is ready")
    parser.add_argument("--result-file", type=Path, required=True, help="where to write what was published")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long to publish")
    parser.add_argument("--journal", type=Path, help="directory that the recorder writes")
    parser.add_argument(
        "--publishers", nargs="*", default=[], help="names of those that the recorder records"
    )
    args = parser.parse_args(argv)
    logging.basicConfig(
        level=logging.WARNING, format=f"{args.instrument}: %(levelname)s %(name)s: %(message)s"
    )
    stop = threading.Event()
    watch_input(stop)
    write_atomically(args.result_file, INSTRUMENTS[args.instrument](args, stop))


if __name__ == "__main__":
    main()
