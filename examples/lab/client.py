"""The demo's user: lets the instruments run, ramps the supply, watches all four.

``python -m examples.lab.client --result-file FILE --seconds 8``
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pzc import Agent, Proxy, close, drop

from examples.lab.psu import RangeError

TOPICS = {"host": "host", "co2": "co2", "camera": "frame"}
PATIENCE = 20.0
RAMP_VOLTS = 12.0
RAMP_STEP = 0.25
LIMIT_VOLTS = 10.0
"""As in limits.toml."""


def say(text: str) -> None:
    print(f"client: {text}", flush=True)


def ramp(psu: Any, seconds: float) -> dict[str, Any]:
    """Ramp up, read back, and down again; ``set`` and ``read`` must be equal."""
    steps = int(RAMP_VOLTS / RAMP_STEP)
    dwell = 0.3 * seconds / steps
    psu.current_limit = 1.5
    psu.output = True
    read = psu.ramp(RAMP_VOLTS, step=RAMP_STEP, dwell=dwell)
    measured = psu.measured_voltage
    psu.ramp(0.0, step=RAMP_STEP, dwell=dwell)
    say(f"ramped {psu.identity} to {read[-1]} V, measured {measured} V, and back to {psu.voltage} V")
    return {"set": RAMP_VOLTS, "read": read[-1], "measured": measured, "down": psu.voltage}


def provoke(psu: Any) -> dict[str, Any]:
    """Ask for too much; the remote range error must arrive as itself, with its remote traceback."""
    try:
        psu.voltage = 99.0
    except RangeError as error:
        notes = "\n".join(getattr(error, "__notes__", []))
        say(f"99 V refused by the supply: {type(error).__name__}: {error}")
        return {"error": type(error).__name__, "text": str(error), "traceback": "psu.py" in notes}
    return {"error": None, "text": "", "traceback": False}


def watch(agent: Agent) -> dict[str, Any]:
    return {
        name: agent.subscribe(name, topic, policy=drop(100_000), callback=lambda _: None)
        for name, topic in TOPICS.items()
    }


def ask(agent: Agent, name: str) -> dict[str, Any]:
    """The statistics of another agent."""
    return agent.request(agent.peer(name, PATIENCE).endpoint, {"pzc": "statistics"}, PATIENCE)


def await_true(what: str, looked: Callable[[], object], timeout: float = PATIENCE) -> None:
    deadline, pause = time.monotonic() + timeout, threading.Event()
    while not looked():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout:g} s")
        pause.wait(0.1)


def use(agent: Agent, seconds: float) -> dict[str, Any]:
    """Everything that is done with the lab; what came of it."""
    voltages: list[float] = []
    psu, *instruments = (Proxy(name, timeout=3 * seconds + PATIENCE) for name in ("psu", *TOPICS))
    psu.voltage_changed.connect(voltages.append)
    subscriptions = watch(agent)
    await_true("the recorder", lambda: len(ask(agent, "recorder-demo")["subscriptions"]) > len(TOPICS))
    say("subscribed to psu, host, co2 and camera; the instruments begin")
    running = [instrument.run.future(seconds) for instrument in instruments]
    results: dict[str, Any] = {"ramp": ramp(psu, seconds), "range_error": provoke(psu)}
    told = dict(zip(TOPICS.values(), (each.result() for each in running), strict=True))
    say("published: " + ", ".join(f"{topic} {number}" for topic, number in told.items()))
    published = {topic: row["published"] for topic, row in ask(agent, "psu")["topics"].items()} | told
    for name, topic in TOPICS.items():
        await_true(f"all of {name}", lambda s=subscriptions[name], n=told[topic]: s.received + s.dropped >= n)
    await_true("all voltages", lambda: len(voltages) >= published["voltage_changed"])
    for proxy in (psu, *instruments):
        close(proxy)
    return {
        **results,
        "published": published,
        "received": {name: s.received for name, s in subscriptions.items()},
        "dropped": {name: s.dropped for name, s in subscriptions.items()},
        "over_limit": sum(volts > LIMIT_VOLTS for volts in voltages),
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--result-file", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=8.0)
    args = parser.parse_args(argv)
    with Agent(name="client") as agent:
        results = use(agent, args.seconds)
    args.result_file.write_text(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
