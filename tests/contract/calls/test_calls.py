"""Calls: how they end, who may make them, and where they run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import pzc

CLOSINGS = ["tcp alone"] * 4 + ["unix alone", "tcp beside", "unix beside"]
"""How each proxy that is closed during a call comes, and whether another one lives beside it."""

PATIENCE = 20.0


class Gate:
    """Calls that last until the test lets them go."""

    def __init__(self) -> None:
        self.entered: dict[int, threading.Event] = {}
        self.open = threading.Event()

    def ready(self) -> int:
        """Something quick."""
        return 1

    def hold(self, number: int) -> None:
        """Last until the gate opens."""
        self.entered.setdefault(number, threading.Event()).set()
        self.open.wait(PATIENCE)


CLOSING = """
import sys, threading
import pzc

endpoint, others = sys.argv[1], []
for number, line in enumerate(sys.stdin):
    transport, company = line.split()
    if company == "beside" and not others:
        others.append(pzc.Proxy(endpoint, timeout=30.0))
    proxy = pzc.Proxy(endpoint, transport=transport, timeout=30.0)
    proxy.ready()
    outcome = []

    def call():
        try:
            proxy.hold(number)
        except BaseException as exc:
            outcome.append(type(exc).__name__)

    caller = threading.Thread(target=call)
    caller.start()
    sys.stdin.readline()
    pzc.close(proxy)
    caller.join(10.0)
    print("ended", *outcome, caller.is_alive(), flush=True)
"""


@pytest.mark.needs("unix")
def test_closing_a_proxy_ends_the_call_that_runs_with_agent_closed() -> None:
    gate = Gate()
    gate.entered = {number: threading.Event() for number in range(len(CLOSINGS))}
    with pzc.Server(gate, concurrency=len(CLOSINGS) + 1) as server:
        command = [sys.executable, "-c", CLOSING, server.rep_endpoint]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            for number, how in enumerate(CLOSINGS):
                child.stdin.write(f"{how}\n")
                assert gate.entered[number].wait(PATIENCE), how
                child.stdin.write("close\n")
                assert child.stdout.readline().split() == ["ended", "AgentClosed", "False"], how
        finally:
            gate.open.set()
            child.kill()
            child.communicate()


class Guarded(pzc.Server):
    """Asks for an admin before ``wipe``, and before nothing else."""

    def role_needed(self, content: Any) -> Any:
        """Admin for one member."""
        options = content[2] if len(content) == 3 and content[1] == "exec" else {}
        return pzc.Role.ADMIN if options.get("name") == "wipe" else pzc.Role.OBSERVER


class Disk:
    """Counts what was wiped."""

    wiped = 0

    def wipe(self) -> int:
        """Only for admins."""
        self.wiped += 1
        return self.wiped

    def read(self) -> int:
        """For everybody."""
        return self.wiped


ADMIN = pzc.Key("the secret of whoever serves the disk", "admin", pzc.Role.ADMIN)
OPERATOR = pzc.Key("the secret of whoever works with the disk", "operator", pzc.Role.OPERATOR)


@pytest.fixture
def guarded() -> Iterator[tuple[Disk, str]]:
    disk = Disk()
    with Guarded(disk, protocol=pzc.Protocol(keyring=pzc.Keyring([ADMIN, OPERATOR], active=ADMIN))) as server:
        yield disk, server.rep_endpoint


def in_a_batch(proxy: pzc.Proxy) -> None:
    """Wipe as one of several calls."""
    with pzc.batch(proxy) as calls:
        calls.wipe()


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_server_that_overrides_role_needed_is_asked_on_every_way(
    guarded: tuple[Disk, str], transport: str
) -> None:
    disk, endpoint = guarded
    protocol = pzc.Protocol(keyring=pzc.Keyring([ADMIN, OPERATOR], active=OPERATOR))
    with pzc.Proxy(endpoint, protocol=protocol, transport=transport) as proxy:
        for _ in range(10):  # quick ways are taken by what has proved quick
            assert proxy.read() == 0
            for attempt in (
                proxy.wipe,
                lambda: proxy.wipe.future().result(PATIENCE),
                lambda: in_a_batch(proxy),
            ):
                with pytest.raises(pzc.RoleRefused):
                    attempt()
    assert disk.wiped == 0


class Instrument:
    """Says in which process it runs."""

    voltage = 1.0
    readings: list[float]

    def __init__(self) -> None:
        self.readings = [1.0]
        self.moved = pzc.Signal()

    def where(self) -> int:
        """Number of the process."""
        return os.getpid()

    def ramp(self) -> Iterator[int]:
        """Count."""
        yield from range(100_000)


def outcome_of(call: Any) -> str:
    """``AgentClosed``, or what else became of a call."""
    try:
        return f"gave {call()!r:.80}"
    except BaseException as exc:
        return type(exc).__name__


def in_a_child(calls: dict[str, Any]) -> dict[str, str]:
    """What becomes of each call in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(write, "w") as told:
            told.writelines(f"{name}\t{outcome_of(call)}\n" for name, call in calls.items())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        lines = told.readlines()
    os.waitpid(child, 0)
    return dict(line.rstrip("\n").split("\t") for line in lines)


@pytest.mark.needs("fork")
@pytest.mark.parametrize("transport", ["auto", "unix", "tcp"])
def test_a_forked_child_runs_nothing_on_its_copy_of_the_object(transport: str) -> None:
    instrument = Instrument()
    with pzc.Server(instrument) as server, pzc.Proxy(server.rep_endpoint, transport=transport) as proxy:
        for _ in range(10):
            assert (proxy.where(), proxy.voltage) == (os.getpid(), 1.0)
        stream, future = proxy.ramp(), proxy.where.future()
        assert next(stream) == 0
        assert future.result(PATIENCE) == os.getpid()

        def in_batch() -> None:
            with pzc.batch(proxy) as calls:
                calls.where()

        def locked() -> None:
            with pzc.lock(proxy):
                pass

        outcomes = in_a_child({
            "call": proxy.where,
            "get": lambda: proxy.voltage,
            "set": lambda: setattr(proxy, "voltage", 2.0),
            "item": lambda: proxy.readings[0],
            "future": lambda: proxy.where.future().result(PATIENCE),
            "oneway": proxy.where.oneway,
            "option": lambda: proxy.where.options(timeout=5.0, idempotent=True)(),
            "batch": in_batch,
            "lock": locked,
            "connect": lambda: proxy.moved.connect(print),
            "request": lambda: server.request(server.rep_endpoint, "ping"),
            "publish": lambda: server.publish("topic", 1),
            "subscribe": lambda: server.subscribe(server.rep_endpoint, "topic"),
            "stream": lambda: [next(stream) for _ in range(50_000)],
        })  # fmt: skip
        assert outcomes == dict.fromkeys(outcomes, "AgentClosed")
        assert instrument.voltage == proxy.voltage == 1.0
