"""The demo's user: ramps the supply through a proxy and watches all four instruments.

``python -m examples.lab.client --result-file FILE --seconds 15``
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pzc import Agent, Proxy, close, drop

from .station import watch_input, write_atomically

TOPICS = {"host": "host", "co2": "co2", "camera": "frame"}
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
    except ValueError as error:
        notes = "\n".join(getattr(error, "__notes__", []))
        say(f"99 V refused by the supply: {type(error).__name__}: {error}")
        return {"error": type(error).__name__, "text": str(error), "traceback": "psu.py" in notes}
    return {"error": None, "text": "", "traceback": False}


def watch(agent: Agent) -> dict[str, Any]:
    return {
        name: agent.subscribe(name, topic, policy=drop(100_000), callback=lambda _: None)
        for name, topic in TOPICS.items()
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--result-file", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=15.0)
    args = parser.parse_args(argv)
    stop = threading.Event()
    watch_input(stop)

    voltages: list[float] = []
    psu = Proxy("psu", timeout=10.0)
    psu.voltage_changed.connect(voltages.append)
    with Agent(name="client") as agent:
        subscriptions = watch(agent)
        say("subscribed to psu, host, co2 and camera; the instruments begin")
        results: dict[str, Any] = {"ramp": ramp(psu, args.seconds), "range_error": provoke(psu)}
        deadline = time.monotonic() + args.seconds
        while time.monotonic() < deadline and not stop.wait(1.0):
            counts = ", ".join(f"{name} {s.received}" for name, s in subscriptions.items())
            say(f"received: {counts}, voltage {len(voltages)}")
            if all(not s.pending and s.received and _idle(s) for s in subscriptions.values()):
                break
        results["received"] = {name: s.received for name, s in subscriptions.items()}
        results["dropped"] = {name: s.dropped for name, s in subscriptions.items()}
        results["voltages"] = len(voltages)
        results["over_limit"] = sum(volts > LIMIT_VOLTS for volts in voltages)
    close(psu)
    write_atomically(args.result_file, results)
    return 0


_seen: dict[int, int] = {}


def _idle(subscription: Any) -> bool:
    """True when nothing came since the last look."""
    before, _seen[id(subscription)] = _seen.get(id(subscription), -1), subscription.received
    return before == subscription.received


if __name__ == "__main__":
    sys.exit(main())
