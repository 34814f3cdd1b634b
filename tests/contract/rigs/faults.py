"""Server processes that start in milliseconds and are made to be killed, and a watch on this machine's lateness."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pzc import Protocol, Server

from tests.contract.rigs.calling import KEY, TIMEOUT
from tests.contract.rigs.endpoints import free_endpoint

STARTED = 10.0
"""Seconds within which a server has started."""


class Recorder:
    """Writes down what it executes, in a way that survives its process: one write per execution."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    def _note(self, number: int) -> int:
        os.write(self._file, b"%d\n" % number)
        return number

    def mark(self, number: int, seconds: float = 0.0) -> int:
        self._note(number)
        if seconds:
            threading.Event().wait(seconds)
        return number

    def later(self, number: int, seconds: float) -> Future[int]:
        future: Future[int] = Future()
        timer = threading.Timer(seconds, future.set_result, (self._note(number),))
        timer.daemon = True
        timer.start()
        return future

    def count(self, number: int, items: int) -> Iterator[int]:
        self._note(number)
        yield from range(items)


def executions(path: Path) -> Counter[int]:
    """How often each number was executed."""
    return Counter(map(int, path.read_text(encoding="ascii").split())) if path.exists() else Counter()


def breed() -> None:
    """Fork a server for each line ``["start", rep, pub, notes, log]``; reap one for ``["reap", pid]``."""
    children: set[int] = set()
    try:
        for line in sys.stdin:
            word, *given = json.loads(line)
            if word == "start":
                pid, told = _fork(*given)
                children.add(pid)
                sys.stdout.write(json.dumps([pid, told]) + "\n")
            else:
                os.waitpid(given[0], 0)
                children.discard(given[0])
                sys.stdout.write("[]\n")
            sys.stdout.flush()
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _fork(rep: str, pub: str, notes: str, log: str) -> tuple[int, str]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _serve(rep, pub, notes, log, writer)
        finally:
            os._exit(0)
    os.close(writer)
    told = os.read(reader, 200).decode() if select.select([reader], [], [], STARTED)[0] else "not in time"
    os.close(reader)
    return pid, told


def _serve(rep: str, pub: str, notes: str, log: str, writer: int) -> None:
    logging.basicConfig(filename=log, level=logging.ERROR)
    try:
        server = Server(Recorder(notes), rep, pub, protocol=Protocol(KEY))
    except Exception as exc:
        os.write(writer, f"{exc!r}".encode()[:200])
        raise
    os.write(writer, b"up")
    server.serve_forever()


class Breeder:
    """The process that forks servers: it has imported everything and never had a thread."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from tests.contract.rigs.faults import breed; breed()"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._lock = threading.Lock()

    def tell(self, *words: object) -> list[Any]:
        """Send a command, return its answer; any thread."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and whatever it has forked."""
        self._process.communicate(timeout=TIMEOUT)


class Mortal:
    """A server that comes back at the same endpoints however often it is killed."""

    def __init__(self, breeder: Breeder, folder: Path) -> None:
        self._breeder = breeder
        self.notes, self.log = folder / "notes", folder / "log"
        self.endpoint, self._pub = free_endpoint(), free_endpoint()
        self.pid = 0

    def start(self) -> None:
        """Return when it answers."""
        pid, told = self._breeder.tell("start", self.endpoint, self._pub, str(self.notes), str(self.log))
        self.pid = int(pid)
        assert told == "up", told

    def end(self, how: int = signal.SIGKILL) -> None:
        """Send it a signal that ends it, and wait for that."""
        watch = os.pidfd_open(self.pid)
        try:
            os.kill(self.pid, how)
            assert select.select([watch], [], [], TIMEOUT)[0], f"process {self.pid} does not end"
        finally:
            os.close(watch)
        self._breeder.tell("reap", self.pid)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def logged(self) -> str:
        """What it logged as an error."""
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""


class Metronome:
    """Measures how late a thread of this process runs that has nothing to do but to wait."""

    BEAT = 0.02

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque(maxlen=2000)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metronome")

    def _run(self) -> None:
        before = time.monotonic()
        while not self._end.wait(self.BEAT):
            now = time.monotonic()
            self._late.append((now, now - before - self.BEAT))
            before = now

    def late(self, begin: float, end: float) -> float:
        """Seconds by which it was late in all between two moments."""
        beats = [(at, late) for at, late in self._late.copy() if begin <= at <= end + self.BEAT]
        last = beats[-1][0] if beats else begin
        overdue = time.monotonic() - last - self.BEAT  # of the beat that has not come yet
        return sum(late for _, late in beats) + max(0.0, overdue)

    def __enter__(self) -> Metronome:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()
        self._thread.join(TIMEOUT)
