"""Instruments to serve, processes to kill, and sockets in the hands of a test, for the tests of calls."""

from __future__ import annotations

import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zmq

from pzc import Agent, Protocol, Proxy, Server, Signal, close, idempotent
from pzc.testing import ShiftedClock

from tests.contract.rigs.endpoints import free_endpoint
from tests.contract.rigs.waiting import eventually

KEY = "a key that both sides know"
TIMEOUT = 20.0

Frames = list[bytes]


def until(condition: Callable[[], object]) -> None:
    """Wait for what another thread or process is about to do."""
    eventually(condition)


class Instrument:
    """What the original's golden session was recorded with."""

    def __init__(self) -> None:
        self._voltage = 0.0
        self.label = "psu"
        self.calibration = {1: 2}
        self.voltage_changed = Signal()

    @property
    def voltage(self) -> float:
        """Output in volt."""
        return self._voltage

    @voltage.setter
    def voltage(self, value: float) -> None:
        old, self._voltage = self._voltage, value
        self.voltage_changed.emit(value, old)

    def ramp(self, a: int, b: int = 2) -> int:
        """Multiply."""
        return a * b

    def fail(self) -> None:
        raise ValueError("out of range")

    def slow(self) -> Future[int]:
        future: Future[int] = Future()
        threading.Thread(target=future.set_result, args=(42,)).start()
        return future


class Gate:
    """Calls that a test lets go on when it wants."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.calls = 0
        self.label = "gate"

    def wait(self) -> str:
        self.calls += 1
        self.entered.set()
        assert self.opened.wait(TIMEOUT)
        return "through"

    def count(self) -> int:
        self.calls += 1
        return self.calls


class Notebook:
    """Writes into files, so that a test sees what ran in another process."""

    def __init__(self) -> None:
        self.written = Signal()

    def write(self, path: str, line: str) -> str:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        self.written.emit(line)
        return line

    def never(self) -> Future[None]:
        return Future()

    def step(self, seconds: float) -> None:
        """From now on the clock of this process is wrong, by so much more."""
        ShiftedClock(seconds).__enter__()

    def stall(self, path: str, seconds: float) -> None:
        self.write(path, "stalled")
        threading.Event().wait(seconds)

    def pid(self) -> int:
        return os.getpid()


CHILD = """
import os, sys, threading
from pzc import Protocol, Server
from pzc.testing import ShiftedClock
from tests.contract.rigs import calling

def end_with_parent():
    sys.stdin.read()
    os._exit(0)

threading.Thread(target=end_with_parent, daemon=True).start()
name, rep, key, skew = sys.argv[1:]
ShiftedClock(float(skew)).__enter__()
server = Server(getattr(calling, name)(), rep, protocol=Protocol(key))
print(server.rep_endpoint, flush=True)
server.serve_forever()
"""


class Fragile:
    """Its first reading ends its process, which a file remembers."""

    @idempotent
    def read(self, memory: str) -> str:
        return self.once(memory)

    def once(self, memory: str) -> str:
        if not Path(memory).exists():
            Path(memory).touch()
            os._exit(3)
        return "read"


class FragileRack(Fragile):
    """Several of them."""

    def __init__(self) -> None:
        self.ch1 = Fragile()
        self.channels = [Fragile()]


class ServerProcess:
    """A server in a process of its own, to be killed and frozen."""

    def __init__(self, served: str = "Notebook", rep: str = "", key: str = KEY, skew: float = 0.0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, served, rep or free_endpoint(), key, str(skew)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.endpoint = self.process.stdout.readline().strip()
        if not self.endpoint:
            self.__exit__()
            raise AssertionError("the child did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(self.process.pid, os.WUNTRACED)[1])

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def served(
    target: Any, *, key: str = "", timeout: float = TIMEOUT, **options: Any
) -> Iterator[tuple[Server, Proxy]]:
    """A server of an object, and a proxy of it."""
    with (
        Server(target, protocol=Protocol(key), **options) as server,
        Proxy(server.rep_endpoint, protocol=Protocol(key), timeout=timeout) as proxy,
    ):
        yield server, proxy


@contextmanager
def proxied(endpoint: str, **options: Any) -> Iterator[Proxy]:
    """A proxy that is closed in the end."""
    proxy = Proxy(endpoint, **options)
    try:
        yield proxy
    finally:
        close(proxy)


class RawPeer:
    """One ZMQ socket with nothing of ours behind it."""

    def __init__(self, endpoint: str, kind: int = zmq.REQ) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(kind)
        self.socket.setsockopt(zmq.LINGER, 0)
        if kind == zmq.REQ:
            self.socket.setsockopt(zmq.REQ_RELAXED, 1)
        self.socket.connect(endpoint)

    def ask(self, frames: Frames) -> Frames:
        """Send a request, return the reply."""
        self.socket.send_multipart(frames)
        return self.receive()

    def receive(self) -> Frames:
        assert self.socket.poll(int(TIMEOUT * 1000)), "no reply"
        return self.socket.recv_multipart()

    def close(self) -> None:
        self._context.destroy(0)

    def __enter__(self) -> RawPeer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Middle:
    """A man in the middle of requests: ROUTER to the clients, DEALER to the agent.

    ``alter`` gets the direction (``request`` or ``reply``), its running number from 1 and the five
    frames, and returns the messages that are passed on instead.
    """

    def __init__(self, endpoint: str, alter: Callable[[str, int, Frames], list[Frames]]) -> None:
        self._context = zmq.Context()
        self._front, self._back = self._context.socket(zmq.ROUTER), self._context.socket(zmq.DEALER)
        self._control, self._told = self._context.socket(zmq.PAIR), self._context.socket(zmq.PAIR)
        self._told.bind("inproc://control")
        self._control.connect("inproc://control")
        self._front.bind("tcp://127.0.0.1:*")
        self._back.connect(endpoint)
        self.endpoint = self._front.getsockopt_string(zmq.LAST_ENDPOINT)
        self.seen: queue.SimpleQueue[tuple[str, Frames]] = queue.SimpleQueue()
        self._alter = alter
        self._thread = threading.Thread(target=self._run, name="middle")
        self._thread.start()

    def _run(self) -> None:
        poller = zmq.Poller()
        for each in (self._front, self._back, self._told):
            poller.register(each, zmq.POLLIN)
        numbers = {"request": 0, "reply": 0}
        while True:
            ready = dict(poller.poll())
            if self._told in ready:
                return
            for source, target, way in (
                (self._front, self._back, "request"),
                (self._back, self._front, "reply"),
            ):
                if source in ready:
                    parts = source.recv_multipart()
                    numbers[way] += 1
                    self.seen.put((way, parts[-5:]))
                    for frames in self._alter(way, numbers[way], parts[-5:]):
                        target.send_multipart([*parts[:-5], *frames])

    def close(self) -> None:
        self._control.send(b"")
        self._thread.join(TIMEOUT)
        self._context.destroy(0)

    def __enter__(self) -> Middle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def counts(agent: Agent) -> dict[str, int]:
    """What an agent counted, once its I/O thread has finished what it was doing."""
    if not agent.join(0):
        agent.loop.run(lambda: None)
    return agent.statistics()["counts"]


def in_thread(function: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A started thread, and what the function returned or raised once it has ended."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function())
        except Exception as exc:
            outcome.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


@contextmanager
def watched(pid: int) -> Iterator[Callable[[], bool]]:
    """A function that waits for the end of a process, whoever its parent is; False when it did not end."""
    descriptor = os.pidfd_open(pid)
    try:
        yield lambda: bool(select.select([descriptor], [], [], TIMEOUT)[0])
    finally:
        os.close(descriptor)


def run_in_fork(function: Callable[[], object]) -> int:
    """Run a function in a forked child; its exit status, 0 when it returned."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def lines(path: Path) -> list[str]:
    """Lines of a file, none when it does not exist."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
