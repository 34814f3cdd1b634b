"""Processes of one agent each that start in milliseconds and are made to be killed, for the tests of links."""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from pzc import Agent, Policy, Protocol
from pzc.agents.links import inlet, inlets, outlet
from pzc.delivery.liveness import Liveness

from tests.agents.calling import step_clock
from tests.agents.linked import wait_until
from tests.agents.links_evidence import digest, payload
from tests.agents.links_reading import Reading
from tests.agents.notifying import KEY, TIMEOUT, run_threads
from tests.agents.scarcity import Hog

RANDOM_TCP = "tcp://127.0.0.1:0"

Found = list[tuple[int, str]]
Make = Callable[..., AbstractContextManager[Any]]


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

    def refuse_blocks(self) -> None:
        """Let the kernel refuse all further blocks."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    def starve(self, left: int) -> None:
        """Have no more than so many descriptors left."""
        self.hog.take(left)

    def feed(self) -> None:
        """Have as many as before."""
        self.hog.free()

    def limit_memory(self, more: int) -> None:
        """Have no more than so many bytes more than now."""
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))

    def be_patient(self) -> None:
        """From the next link on, take nobody for dead who is silent for less than an hour."""
        for module in (inlet, outlet):
            setattr(module, "Liveness", partial(Liveness, lost=3600.0))  # noqa: B010

    def step_clock(self, seconds: float) -> None:
        """As if somebody set the clock of this machine."""
        step_clock(seconds)

    def links_of(self, name: str) -> dict[str, Any]:
        """What the link of a subscription is and saw."""
        subscription = self.readings[name].subscription
        assert subscription is not None
        return inlets.statistics(subscription) or {}

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


def forge() -> None:
    """Fork a worker, or reap one, for each message on the given socket."""
    control = socket.socket(fileno=int(sys.argv[1]))
    children: set[int] = set()
    try:
        while True:
            data, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 1)
            if not data:
                return
            word, given = pickle.loads(data)
            if word == "start":
                answer = os.fork()
                if answer == 0:
                    control.close()
                    _work(Connection(descriptors[0]), *given)
                os.close(descriptors[0])
                children.add(answer)
            else:
                answer = os.waitpid(given, 0)[1]
                children.discard(given)
            control.send(pickle.dumps(answer))
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@contextmanager
def working(rep: str = RANDOM_TCP, pub: str = RANDOM_TCP) -> Iterator[Worker]:
    """A worker in this process."""
    with Agent(rep, pub, name="worker", protocol=Protocol(KEY)) as agent:
        yield Worker(agent)


def _work(orders: Connection, make: Make, *given: Any) -> NoReturn:
    try:
        with make(*given) as worker:
            while True:
                word, args, options = orders.recv()
                try:
                    answer = True, getattr(worker, word)(*args, **options)
                except BaseException:
                    answer = False, traceback.format_exc()
                orders.send(answer)
    except (EOFError, BrokenPipeError):
        pass  # its test has no more to say
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


class Forge:
    """The process that forks workers: it has imported everything and never had a thread."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "from tests.agents.links_rig import forge; forge()",
                    str(theirs.fileno()),
                ],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self._control.settimeout(TIMEOUT)

    def tell(self, word: str, given: Any, *descriptors: int) -> int:
        with self._lock:
            socket.send_fds(self._control, [pickle.dumps((word, given))], list(descriptors))
            return pickle.loads(self._control.recv(1 << 16))

    def close(self) -> None:
        """End it, and whatever it has forked."""
        self._control.close()
        try:
            self._process.wait(TIMEOUT)
        finally:
            self._process.kill()
            self._process.wait(TIMEOUT)


class Hand:
    """A worker, as its test sees it.

    Args:
        forge: forks it.
        given: to `make`.
        make: makes what does as it is told, in the worker.
    """

    def __init__(self, forge: Forge, *given: Any, make: Make = working) -> None:
        self._forge = forge
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.pid = forge.tell("start", (make, *given), theirs.fileno())
            self._orders = Connection(os.dup(ours.fileno()))
        self._alive = True

    def start(self, word: str, *args: Any, **options: Any) -> None:
        """Tell it what to do."""
        self._orders.send((word, args, options))

    def finish(self, timeout: float = TIMEOUT) -> Any:
        """What it found."""
        assert self._orders.poll(timeout), f"worker {self.pid} gives no answer"
        good, answer = self._orders.recv()
        assert good, answer
        return answer

    def ask(self, word: str, *args: Any, **options: Any) -> Any:
        self.start(word, *args, **options)
        return self.finish()

    def freeze(self) -> None:
        """Return when it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: all(map(_stands, Path(f"/proc/{self.pid}/task").iterdir())))

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Return when it has gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Let it end as it should."""
        self._orders.close()
        self._end(0)

    def _end(self, how: int) -> None:
        if not self._alive:
            return
        self._alive = False
        watch = os.pidfd_open(self.pid)
        try:
            if how:
                os.kill(self.pid, how)
            ended = select.select([watch], [], [], TIMEOUT)[0]
            if not ended:
                os.kill(self.pid, signal.SIGKILL)
        finally:
            os.close(watch)
            self._orders.close()
            self._forge.tell("reap", self.pid)
        assert ended, f"worker {self.pid} did not end"


def _stands(task: Path) -> bool:
    try:
        told = (task / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has just ended
    return told.rpartition(")")[2].split()[0] == "T"


class Workers(ExitStack):
    """The workers of one test; all are killed at its end."""

    def __init__(self, forge: Forge) -> None:
        super().__init__()
        self._forge = forge

    def start(self, *endpoints: str) -> Hand:
        hand = Hand(self._forge, *endpoints)
        self.callback(hand.kill)
        return hand

    def publisher(self, *endpoints: str) -> tuple[Hand, str]:
        """A worker, and where it can be reached."""
        hand = self.start(*endpoints)
        return hand, hand.ask("endpoints")[0]
