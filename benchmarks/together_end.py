"""One process of `together`: ``python -m benchmarks.together_end KIND [ADDRESS]``.

KIND is ``publisher``, or that of a reader.
"""

from __future__ import annotations

import sys
import time

from pzc import Agent, Notification, block, drop, latest, mailbox

from benchmarks.children import Parent
from benchmarks.ends import SMALL, TOPIC
from benchmarks.jobs import quiet

SLOTS = 1000

POLICIES = {
    "block": (block(timeout=1000.0), "unix"),
    "wide block": (block(timeout=1000.0, slots=SLOTS), "unix"),
    "latest": (latest(1), "unix"),
    "mailbox": (mailbox(), "tcp"),
    "broadcast": (drop(), "tcp"),
}


def take(notification: Notification) -> None:
    """What every reader does."""
    del notification


def publish(parent: Parent, near: bool) -> None:
    """Publish as many as the parent says, as fast as that goes; ``near``: with a reader in this process."""
    content = bytes(SMALL)
    with Agent() as agent:
        agent.advertise(TOPIC, buffers=SLOTS)
        if near:
            agent.subscribe(agent.rep_endpoint, TOPIC, take, policy=block(), transport="inproc")
        parent.tell(address=agent.rep_endpoint)
        for command in parent.commands():
            with quiet():
                began, used = time.perf_counter(), time.thread_time()
                for _ in range(command["count"]):
                    agent.publish(TOPIC, content)
                used, seconds = time.thread_time() - used, time.perf_counter() - began
            parent.tell(seconds=seconds, used=used)


def read(parent: Parent, kind: str, address: str) -> None:
    """Read, and tell what was received or dropped whenever the parent asks."""
    policy, transport = POLICIES[kind]
    with Agent() as agent:
        subscription = agent.subscribe(address, TOPIC, take, policy=policy, transport=transport)
        parent.tell(there=True)
        for _ in parent.commands():
            parent.tell(accounted=subscription.received + subscription.dropped)


def main() -> None:
    parent = Parent()
    kind, *address = sys.argv[1:]
    try:
        if kind in ("publisher", "reader and publisher"):
            publish(parent, kind != "publisher")
        else:
            read(parent, kind, *address)
    except Exception as exc:
        parent.fail(exc)


if __name__ == "__main__":
    main()
