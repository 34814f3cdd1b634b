"""What a worker process does as a publisher and as a reader, word by word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pzc import Agent, Policy, Protocol
from pzc.testing import ShiftedClock

from tests.contract.rigs.evidence import digest, payload
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, run_threads
from tests.contract.rigs.reading import Reading
from tests.contract.rigs.scarcity import Hog

RANDOM_TCP = "tcp://127.0.0.1:0"

Found = list[tuple[int, str]]


class Counted:
    """Counts how often it is unpickled in a process."""

    count = 0

    def __init__(self, size: int) -> None:
        self.size = size

    def __reduce__(self) -> tuple[Any, ...]:
        return _count, (bytes(self.size),)


def _count(filler: bytes) -> bytes:
    Counted.count += 1
    return filler


class Worker:
    """What a process does when it is told; every method is a word."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.hog = Hog()
        self.readings: dict[str, Reading] = {}

    # --- as a publisher ------------------------------------------------------------------------------

    def endpoints(self) -> tuple[str, str]:
        return self.agent.rep_endpoint, self.agent.pub_endpoint

    def advertise(self, topic: str, **options: Any) -> None:
        self.agent.advertise(topic, **options)

    def publish(self, topic: str, sizes: list[int], first: int = 1, ack_wait: float | None = None) -> int:
        """Publish payloads; returns the last number."""
        last = 0
        for number, size in enumerate(sizes, first):
            last = self.agent.publish(topic, payload(number, size), ack_wait=ack_wait)
        return last

    def publish_at_once(self, topics: list[str], each: int) -> dict[str, list[tuple[int, Any]]]:
        """Publish in one thread for each topic (which may repeat); returns the numbers of all contents."""
        numbers: dict[str, list[tuple[int, Any]]] = {topic: [] for topic in topics}

        def publish(who: int, topic: str) -> None:
            for count in range(each):
                numbers[topic].append((self.agent.publish(topic, (who, count)), (who, count)))

        run_threads(*(lambda who=who, topic=topic: publish(who, topic) for who, topic in enumerate(topics)))
        return numbers

    def wait_for_subscribers(self, topic: str, count: int) -> bool:
        return self.agent.wait_for_subscribers(topic, count, TIMEOUT)

    def statistics(self) -> dict[str, Any]:
        """Links, ring and counts."""
        return {**self.agent.statistics()["links"], "counts": self.agent.counters.as_dict()}

    def unacknowledged(self) -> int:
        """Messages of mailboxes that their readers have and are not done with."""
        return sum(each["unacknowledged"] for each in self.agent.statistics()["mailboxes"])

    def refuse_blocks(self) -> None:
        """Let the kernel refuse all further blocks."""
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    def starve(self, left: int) -> None:
        """Have no more than so many descriptors left."""
        self.hog.take(left)

    def feed(self) -> None:
        """Have as many as before."""
        self.hog.free()

    def limit_memory(self, more: int) -> None:
        """Have no more than so many bytes more than now."""
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))

    def step_clock(self, seconds: float) -> None:
        """As if somebody set the clock of this machine."""
        ShiftedClock(seconds).__enter__()

    def link_of(self, name: str) -> dict[str, Any] | None:
        """What `Agent.statistics` tells of the link of a subscription; None without one."""
        subscription = self.readings[name].subscription
        assert subscription is not None
        told = self.agent.statistics()["subscriptions"]
        return next((each["link"] for each in told if each["topic"] == subscription.topic), None)

    # --- as a reader ---------------------------------------------------------------------------------

    def subscribe(
        self, name: str, endpoint: str, topic: str, policy: Policy, transport: str = "auto", how: str = "",
        **options: Any,
    ) -> str:  # fmt: skip
        """Subscribe; `how` names a callback of `Reading`, none with ``""``; returns the transport."""
        reading = self.readings[name] = Reading(**options)
        subscription = self.agent.subscribe(
            endpoint, topic, getattr(reading, how) if how else None, policy=policy, transport=transport,
            timeout=TIMEOUT,
        )  # fmt: skip
        reading.subscription = subscription
        subscription.on_gap, subscription.on_lost = reading.gap, reading.lost.append
        return subscription.transport

    def take(self, name: str, count: int) -> Found:
        """Read and hash."""
        reading = self.readings[name]
        assert reading.subscription is not None
        for _ in range(count):
            reading.hash(reading.subscription.recv(TIMEOUT))
        return reading.found[-count:] if count else []

    def account(self, name: str, total: int) -> tuple[int, int, list[tuple[int, Any]]]:
        """Wait until so many were received or dropped; how many of both, and what was found."""
        reading = self.readings[name]
        wait_until(lambda: sum(reading.counts[:2]) >= total and not reading.counts[2])
        wait_until(lambda: len(reading.found) >= reading.counts[0])
        received, dropped, _ = reading.counts
        return received, dropped, reading.found

    def wait_for(self, name: str, what: str, count: int = 1) -> list[Any]:
        """Wait for losses (``gaps``, ``lost``) or contents (``found``)."""
        wait_until(lambda: len(getattr(self.readings[name], what)) >= count)
        return getattr(self.readings[name], what)

    def wait_for_errors(self, name: str, count: int) -> None:
        subscription = self.readings[name].subscription
        wait_until(lambda: subscription is not None and subscription.callback_errors == count)

    def pending(self, name: str, count: int) -> None:
        """Wait until so many are unread."""
        wait_until(lambda: self.readings[name].counts[2] == count)

    def hashes_of_kept(self, name: str) -> list[str]:
        return [digest(kept) for kept in self.readings[name].kept]

    def unpickled(self) -> int:
        return Counted.count

    def close(self, name: str) -> None:
        """Close the subscription and forget what it kept."""
        reading = self.readings.pop(name)
        assert reading.subscription is not None
        reading.subscription.close()


@contextmanager
def working(rep: str = RANDOM_TCP, pub: str = RANDOM_TCP) -> Iterator[Worker]:
    """A worker in this process."""
    with Agent(rep, pub, name="worker", protocol=Protocol(KEY)) as agent:
        yield Worker(agent)
