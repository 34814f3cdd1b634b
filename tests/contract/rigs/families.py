"""Processes whose children live on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.contract.rigs.calling import KEY, TIMEOUT

FAMILY = """
import multiprocessing, os, subprocess, sys, threading
from pzc import Agent, Protocol, Proxy, Server, block, lock
from tests.contract.rigs.calling import Gate

what, how, key, *given = sys.argv[1:]
end = os.dup(0)  # it ends with the test

def live_on():
    os.read(end, 1)
    os._exit(0)

if what == "server":
    kept = server = Server(Gate(), *given, protocol=Protocol(key))
    print(server.rep_endpoint, flush=True)
elif what == "reader":
    kept = agent = Agent(protocol=Protocol(key))
    agent.subscribe(given[0], "t", policy=block(timeout=60), transport="unix")
    print("subscribed", flush=True)
else:
    proxy = Proxy(given[0], protocol=Protocol(key))
    kept = lock(proxy, ttl=3600.0)
    print("locked", flush=True)
sys.stdin.readline()
if how == "fork":
    if os.fork() == 0:
        live_on()
elif how == "multiprocessing":
    multiprocessing.get_context("fork").Process(target=live_on).start()
else:
    subprocess.Popen(["cat"], stdin=end, close_fds=False)
print("forked", flush=True)
threading.Event().wait()
"""
HOWS = ("fork", "multiprocessing", "subprocess")
every_how = pytest.mark.parametrize("how", HOWS)


class Family:
    """A process that is killed, and its child, which lives on until the end of the test."""

    def __init__(self, what: str, how: str, *given: str) -> None:
        command = [sys.executable, "-c", FAMILY, what, how, KEY, *given]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ.copy()
        )
        self.told = self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def fork(self) -> None:
        """Return when it has a child."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.line() == "forked"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT)


@contextmanager
def family(what: str, how: str, *given: str) -> Iterator[Family]:
    made = Family(what, how, *given)
    try:
        yield made
    finally:
        made.kill()
        for pipe in (made.process.stdin, made.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def patient(timings: Callable[..., None]) -> None:
    """Nobody is taken for dead because of silence."""
    timings(silence=7200.0)
