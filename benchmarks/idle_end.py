"""One process of `idle`: ``python -m benchmarks.idle_end AGENTS ADDRESS``; ADDRESS may be empty."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack

from pzc import Agent, Notification

from benchmarks.children import Parent
from benchmarks.ends import TOPIC


def ignore(notification: Notification) -> None:
    """What every subscription does."""
    del notification


def main() -> None:
    parent = Parent()
    count, address = sys.argv[1:]
    try:
        with ExitStack() as stack:
            last = ""
            for _ in range(int(count)):
                agent = stack.enter_context(Agent())
                if address:
                    agent.subscribe(address, TOPIC, ignore)
                    address = agent.rep_endpoint
                last = agent.rep_endpoint
            parent.tell(address=last)
            for _ in parent.commands():
                parent.tell(used=time.process_time())
    except Exception as exc:
        parent.fail(exc)


if __name__ == "__main__":
    main()
