"""A process of the discovery benchmark: it is called, calls, has topics, or is one of a crowd."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack

from benchmarks.children import Parent

NAME = "instrument"
PATIENCE = 20.0
"""Seconds that a name may be waited for, and its first call may take."""


def serve(parent: Parent) -> None:
    """An agent that is up before anybody asks for it."""
    from pzc import Server

    class Instrument:
        def add(self, a: int, b: int) -> int:
            return a + b

    with Server(Instrument(), name=NAME):
        _until_closed(parent)


def call(parent: Parent) -> None:
    """A fresh process: its import, and its first call by name."""
    began = time.monotonic()
    from pzc import Proxy

    imported = time.monotonic()
    with Proxy(NAME, timeout=PATIENCE) as instrument:
        result = instrument.add(1, 2)
        done = time.monotonic()
    if result != 3:
        raise RuntimeError(f"1 + 2 is 3, not {result!r}")
    parent.tell(imported=imported - began, called=done - imported, done=done)


def publish(parent: Parent, topics: int) -> None:
    """One agent with topics; tells what its participant has sent until now."""
    from pzc import Agent

    from benchmarks.discovery_watch import Watch

    with Agent(name=NAME) as agent, Watch() as watch:
        for number in range(topics):
            agent.advertise(f"topic{number}")
        parent.tell(ready=True)
        for _ in parent.commands():
            parent.tell(at=time.monotonic(), sent=watch.sent, topics=watch.own("topic"))


def gather(parent: Parent, number: int, agents: int, found: int) -> None:
    """Some agents of a crowd; tells how many of the crowd it sees, lost, and what it used.

    With ``found`` 0 they keep their names to themselves, see nobody, and open no socket for discovery.
    """
    from pzc import Agent

    from benchmarks.discovery_watch import Watch

    with ExitStack() as stack:
        for each in range(agents):
            stack.enter_context(Agent(name=f"p{number}-a{each}", discovery=bool(found)))
        watch = stack.enter_context(Watch()) if found else None
        parent.tell(ready=True)
        for _ in parent.commands():
            used = time.process_time()
            at = time.monotonic()
            seen, lost = (watch.seen("agent"), watch.lost) if watch else (0, 0)
            parent.tell(at=at, used=used, seen=seen, lost=lost)


def _until_closed(parent: Parent) -> None:
    parent.tell(ready=True)
    for _ in parent.commands():
        parent.tell(ready=True)


ROLES = {"serve": serve, "call": call, "publish": publish, "gather": gather}


def main() -> None:
    parent = Parent()
    role, *numbers = sys.argv[1:]
    try:
        ROLES[role](parent, *map(int, numbers))
    except Exception as exc:
        parent.fail(exc)


if __name__ == "__main__":
    main()
