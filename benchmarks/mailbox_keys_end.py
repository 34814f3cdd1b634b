"""One process of `mailbox_keys`: ``python -m benchmarks.mailbox_keys_end ROLE [WAY] [traced]``.

ROLE is ``publisher``, or its address for the subscriber.
"""

from __future__ import annotations

import gc
import statistics
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from pzc import Agent, Notification, Subscription, mailbox

from benchmarks.children import Parent
from benchmarks.ends import TOPIC

THREADS = 16
"""Threads that subscribe together, as an application with so many keys would."""

ALONE = 200
"""Keys that are subscribed one by one, after all others."""

WARM_UP = 200
"""Keys before the first that counts, with everything that is made once."""

TIMEOUT = 60.0
POLICY = mailbox(max_messages=200_000)


def key_of(number: int) -> str:
    """The key with a number."""
    return f"actor-{number:08d}"


def memory() -> dict[str, int]:
    """Bytes of this process, and those that Python's allocator was seen to give since tracing began."""
    gc.collect()
    return {"rss": psutil.Process().memory_info().rss, "traced": tracemalloc.get_traced_memory()[0]}


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many Python functions this thread calls meanwhile."""
    calls = [0]

    def count(frame: object, event: str, argument: object) -> None:
        del frame, argument
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


class Publisher:
    """The agent that keeps the mail.

    Args:
        agent: its agent.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """What the parent asked for."""
        if command["do"] == "spread":
            for number in range(command["keys"]):
                self._agent.publish(TOPIC, 0.0, key=key_of(number))
        elif command["do"] == "publish":
            with counted() as calls:
                self._agent.publish(TOPIC, time.monotonic(), key=key_of(command["key"]))
            return {"calls": calls[0]}
        mailboxes: Any = self._agent.statistics()["mailboxes"]
        return {
            **memory(),
            "entries": sum(each["subscriptions"] for each in mailboxes),
            "waiting": sum(each["waiting"] for each in mailboxes),
        }


class Subscriber:
    """The agent that subscribes to keys.

    Args:
        agent: its agent.
        address: of the publisher.
        way: the transport that is asked for.
    """

    def __init__(self, agent: Agent, address: str, way: str) -> None:
        self._agent, self._address, self._way = agent, address, way
        self._made: list[Subscription] = []
        self._ages: list[float] = []
        self._changed = threading.Condition()
        self._take = self.take  # one for all

    def take(self, notification: Notification) -> None:
        """The callback of all keys."""
        age = time.monotonic() - notification.content
        with self._changed:
            self._ages.append(age)
            self._changed.notify()

    def subscribe(self, number: int) -> Subscription:
        """To the key with a number."""
        return self._agent.subscribe(
            self._address, TOPIC, self._take, policy=POLICY, key=key_of(number), transport=self._way,
            timeout=TIMEOUT,
        )  # fmt: skip

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """What the parent asked for."""
        do = getattr(self, f"_{command['do']}")
        return do(command)

    def _begin(self, command: dict[str, Any]) -> dict[str, Any]:
        """Subscribe to the first key, and then to more."""
        self._made.append(self.subscribe(0))
        self._subscribe_together(range(1, command["keys"]))
        return memory()

    def _subscribe_together(self, numbers: range) -> None:
        """By several threads; a pool would keep something of its own for each key."""
        left, errors = iter(numbers), list[Exception]()
        taking = threading.Lock()

        def work() -> None:
            try:
                while not errors:
                    with taking:
                        number = next(left, None)
                    if number is None:
                        return
                    self._made.append(self.subscribe(number))
            except Exception as exc:
                errors.append(exc)

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _fill(self, command: dict[str, Any]) -> dict[str, Any]:
        """Subscribe to many keys by several threads, then to a few one by one."""
        first, last = command["first"], command["last"]
        alone = min(ALONE, (last - first) // 2)
        began, burnt = time.monotonic(), time.process_time()
        self._subscribe_together(range(first, last - alone))
        together, cpu = time.monotonic() - began, time.process_time() - burnt
        times = list[float]()
        for number in range(last - alone, last):
            began = time.monotonic()
            self._made.append(self.subscribe(number))
            times.append(time.monotonic() - began)
        number = last - first - alone
        return {
            **memory(), "together": together / number, "cpu": cpu / number, "alone": statistics.median(times),
        }  # fmt: skip

    def _fill_one(self, command: dict[str, Any]) -> dict[str, Any]:
        """One subscription to many keys."""
        first, last = command["first"], command["last"]
        began, burnt = time.monotonic(), time.process_time()
        self._made.append(
            self._agent.subscribe(
                self._address, TOPIC, self._take, policy=POLICY, transport=self._way, timeout=TIMEOUT,
                key=[key_of(number) for number in range(first, last)],
            )
        )  # fmt: skip
        number = last - first
        together, cpu = time.monotonic() - began, time.process_time() - burnt
        return {**memory(), "together": together / number, "cpu": cpu / number}

    def _receive(self, command: dict[str, Any]) -> dict[str, Any]:
        """Wait for so many messages altogether; how old the last one was when it came."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._ages) >= command["count"], TIMEOUT):
                raise TimeoutError(f"{len(self._ages)} of {command['count']} messages came")
            found = len(self._ages), self._ages[-1]
            if command.get("forget"):
                self._ages = []
        return {"received": found[0], "age": found[1], **memory()}

    def _close(self, command: dict[str, Any]) -> dict[str, Any]:
        """Close all but the first one, which keeps the connection; seconds per key."""
        ending, self._made = self._made[1:], self._made[:1]
        began = time.monotonic()
        for subscription in ending:
            subscription.close()
        seconds = time.monotonic() - began
        return {"seconds": seconds / command["keys"]}

    def _look(self, command: dict[str, Any]) -> dict[str, Any]:
        """Memory, connections to the publisher, and subscriptions that there are."""
        del command
        port = int(self._address.rpartition(":")[2])
        connections = psutil.Process().net_connections("tcp")
        there = [each for each in connections if each.raddr and each.raddr.port == port]
        subscriptions: Any = self._agent.statistics()["subscriptions"]
        return {"connections": len(there), "entries": len(subscriptions), **memory()}


def main() -> None:
    parent = Parent()
    role, *rest = sys.argv[1:]
    if "traced" in rest:
        tracemalloc.start(1)
    try:
        with Agent() as agent:
            end = Publisher(agent) if role == "publisher" else Subscriber(agent, role, rest[0])
            parent.tell(address=agent.rep_endpoint)
            for command in parent.commands():
                parent.tell(**end.answer(command))
    except Exception as exc:
        parent.fail(exc)


if __name__ == "__main__":
    main()
