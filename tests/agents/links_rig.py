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
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from pzc import Agent, Gap, Notification, Policy, Protocol, Subscription

from tests.agents.linked import wait_until
from tests.agents.links_evidence import digest, payload
from tests.agents.notifying import KEY, TIMEOUT, run_threads

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


class Reading:
    """A subscription of a worker, and what became of what it got; its methods are its callbacks.

    Args:
        size: bytes of each `payload`, for `verify`.
        notes: file that gets a line for each payload that `verify` found damaged.
        seconds: that `slow` takes for each.
    """

    def __init__(self, size: int = 0, notes: str = "", seconds: float = 0.0) -> None:
        self.subscription: Subscription | None = None
        self.found: list[tuple[int, Any]] = []
        self.kept: list[Any] = []
        self.gaps: list[tuple[int, bool]] = []
        self.lost: list[str] = []
        self._size, self._seconds = size, seconds
        self._notes = os.open(notes, os.O_APPEND | os.O_CREAT | os.O_WRONLY) if notes else -1

    def gap(self, gap: Gap) -> None:
        self.gaps.append((gap.count, gap.restarted))

    def hash(self, notification: Notification) -> None:
        self.found.append((notification.sequence, digest(notification.content)))

    def slow(self, notification: Notification) -> None:
        threading.Event().wait(self._seconds)
        self.hash(notification)

    def collect(self, notification: Notification) -> None:
        self.found.append((notification.sequence, notification.content))

    def verify(self, notification: Notification) -> None:
        number, content = notification.sequence, notification.content
        if digest(content) != digest(payload(number, self._size)) and self._notes >= 0:
            os.write(self._notes, b"%d\n" % number)
        self.found.append((number, ""))

    def fail(self, notification: Notification) -> None:
        self.hash(notification)
        raise RuntimeError(f"no {notification.sequence}")

    def leave(self, notification: Notification) -> None:
        self.hash(notification)
        if notification.sequence >= 3 and self.subscription is not None:
            self.subscription.close()

    def keep(self, notification: Notification) -> None:
        self.hash(notification)
        self.kept.append(notification.content[1:])

    @property
    def counts(self) -> tuple[int, int, int]:
        assert self.subscription is not None
        return self.subscription.received, self.subscription.dropped, self.subscription.pending


class Worker:
    """What a process does when it is told; every method is a word."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
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


def _work(orders: Connection, rep: str, pub: str) -> NoReturn:
    try:
        with Agent(rep, pub, name="worker", protocol=Protocol(KEY)) as agent:
            worker = Worker(agent)
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
    """A worker, as its test sees it."""

    def __init__(self, forge: Forge, rep: str = "tcp://127.0.0.1:0", pub: str = "tcp://127.0.0.1:0") -> None:
        self._forge = forge
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.pid = forge.tell("start", (rep, pub), theirs.fileno())
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
