"""What one small message may cost the server that gets it; the server is a child with bounded memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pzc import Agent, Protocol, PzcError

from tests.contract.rigs.calling import TIMEOUT

CHILD = """
import resource, sys
import numpy as np
from pzc import Protocol, Server

class Camera:
    def __init__(self):
        self.image = np.zeros((4, 8192))

    @property
    def trace(self):
        return np.zeros(8192)

    def peak(self):
        # Not ru_maxrss, which begins with what the parent of the process had.
        lines = open("/proc/self/status").read().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
with Server(Camera(), protocol=Protocol("")) as server:
    print(server.rep_endpoint, flush=True)
    sys.stdin.read()
"""
MIB = 1 << 20


@contextmanager
def camera() -> Iterator[str]:
    """The endpoint of a camera in a process of its own, which has at most 3 GiB."""
    command = [sys.executable, "-P", "-c", CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdin
        try:
            yield child.stdout.readline().strip()
        finally:
            child.stdin.close()
            child.wait(TIMEOUT)


def grown_by(name: str, method: str, argument: object) -> int:
    """Bytes that an operation on a member adds to the peak of a camera."""
    with camera() as endpoint, Agent(protocol=Protocol("")) as agent:

        def call(name: str, method: str = "__call__", *args: object) -> object:
            return agent.request(
                endpoint, ("PSMessage", "exec", {"name": name, "method": method, "args": args}), TIMEOUT
            )[2]

        before = call("peak")
        with suppress(PzcError):
            call(name, method, argument)
        after = call("peak")
        assert isinstance(before, int)
        assert isinstance(after, int)
        return after - before


def test_a_comparison_of_an_array_makes_nothing_that_is_much_larger() -> None:
    assert grown_by("trace", "__eq__", [[0]] * 8192) < 16 * MIB


def test_an_index_list_makes_nothing_that_is_much_larger() -> None:
    assert grown_by("image", "__getitem__", [0] * 2048) < 16 * MIB


def test_many_small_parts_make_nothing_that_is_much_larger() -> None:
    assert grown_by("peak", "__call__", [[] for _ in range(300_000)]) < 32 * MIB


def test_nothing_is_kept_of_an_action_that_there_is_not() -> None:
    with camera() as endpoint, Agent(protocol=Protocol("")) as agent:

        def ask(action: str) -> object:
            options = {"name": "peak", "args": ()}
            return agent.request(endpoint, ("PSMessage", action, options), TIMEOUT)[2]

        before = ask("exec")
        for number in range(150):
            ask(f"{number}" + "x" * MIB)
        after = ask("exec")
        assert isinstance(before, int)
        assert isinstance(after, int)
        assert after - before < 64 * MIB


def test_a_path_has_no_more_text_than_can_be_written() -> None:
    with camera() as endpoint, Agent(protocol=Protocol("")) as agent:
        options = {"on": ["x" * 1000] * 2, "name": "peak"}
        answer = agent.request(endpoint, ("PSMessage", "get", options), TIMEOUT)
        assert "at most 1024" in str(answer)
