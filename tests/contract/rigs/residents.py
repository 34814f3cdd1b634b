"""Processes on the hosts of a lab: each does what its test tells it, with one agent or server of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from pzc import (
    Agent,
    Policy,
    Proxy,
    PzcError,
    Server,
    Signal,
    block,
    discover,
    drop,
    latest,
    lock,
    mailbox,
    watch,
)
from pzc.testing import command

from tests.contract.rigs.ethernet import enter, instead_of
from tests.contract.rigs.evidence import digest, payload
from tests.contract.rigs.namespaces import Host
from tests.contract.rigs.pairs import eventually, wait_until
from tests.contract.rigs.peers import KEY
from tests.contract.rigs.processes import Forge, Hand
from tests.contract.rigs.workers import Worker

CALL_TIMEOUT = 15.0

POLICIES = [drop(), latest(1000), block(), mailbox()]
"""With each of them a reader that is quick enough gets everything."""

every_policy = pytest.mark.parametrize("policy", POLICIES, ids=[policy.name for policy in POLICIES])

NEVER = 1000.0
"""Seconds of a timeout that no test waits for."""

NEVER_FOUND, QUICK = 8.0, 4.0
"""Seconds for what nobody finds, and for a call beside that; a name server that is silent takes 10."""


class Bench:
    """What residents serve."""

    def __init__(self) -> None:
        self._level = 0.0
        self.label = "bench"
        self.level_changed = Signal()

    @property
    def level(self) -> float:
        return self._level

    @level.setter
    def level(self, value: float) -> None:
        old, self._level = self._level, value
        self.level_changed.emit(value, old)

    def add(self, a: int, b: int) -> int:
        return a + b

    def turned(self, array: Any) -> Any:
        return array[::-1].copy()

    def count(self, last: int) -> Iterator[int]:
        yield from range(last)

    def later(self, value: int) -> Future[int]:
        future: Future[int] = Future()
        threading.Thread(target=future.set_result, args=(value,)).start()
        return future


class Resident(Worker):
    """A process on a host; every method is a word."""

    def __init__(self, stack: ExitStack) -> None:
        self.readings = {}
        self._stack = stack
        self._proxies: dict[str, Proxy] = {}

    def know(self, hosts: str, name_server: str = "") -> None:
        """Have names of hosts of one's own; before anything else, so that every thread has them."""
        folder = Path(self._stack.enter_context(TemporaryDirectory()))
        self._hosts = folder / "hosts"
        self.rename(hosts)
        instead_of(str(self._hosts), "/etc/hosts")
        if name_server:
            (folder / "resolv.conf").write_text(f"nameserver {name_server}\n", encoding="ascii")
            instead_of(str(folder / "resolv.conf"), "/etc/resolv.conf")

    def rename(self, hosts: str) -> None:
        """Have other names of hosts from now on."""
        self._hosts.write_text(f"127.0.0.1 localhost\n{hosts}", encoding="ascii")

    def open(self, rep: str, pub: str = "", **options: Any) -> tuple[str, str]:
        """Have an agent; returns where it can be reached."""
        self.agent = self._stack.enter_context(Agent(rep, pub, **options))
        return self.endpoints()

    def serve(self, rep: str, pub: str = "", **options: Any) -> tuple[str, str]:
        """Have a server of a bench; returns where it can be reached."""
        self.agent = self._stack.enter_context(Server(Bench(), rep, pub, **options))
        return self.endpoints()

    def register(self, rep: str, file: str) -> None:
        """Be a registry, and nothing else from now on; its endpoint is in a file."""
        command("registry", "--bind", rep, "--endpoint-file", file)

    def find(self, pattern: str) -> list[str]:
        """Names that are known after a while."""
        return sorted(entry.name for entry in discover(pattern, timeout=2.0, kind="service"))

    def know_address(self, name: str, host: str) -> None:
        """Wait until an agent of that name has an address on a host."""
        with watch(pattern=name) as watching:
            wait_until(lambda: any(f"//{host}:" in at for each in watching.entries for at in each.addresses))

    def call(self, endpoint: str, method: str, *args: Any, timeout: float = CALL_TIMEOUT) -> Any:
        """One call over a proxy that is kept; the name of the error, when it could not be made."""
        try:
            if endpoint not in self._proxies:
                self._proxies[endpoint] = self._stack.enter_context(Proxy(endpoint, timeout=NEVER))
            return getattr(self._proxies[endpoint], method).options(timeout=timeout)(*args)
        except PzcError as exc:
            return type(exc).__name__

    def call_beside(self, other: str, endpoint: str, method: str, *args: Any) -> Any:
        """As `call`, again and again while a thread tries to reach another endpoint; the first failure."""

        def reach() -> None:
            with suppress(PzcError), Proxy(other, timeout=NEVER_FOUND):
                pass

        reaching = threading.Thread(target=reach)
        reaching.start()
        found = self.call(endpoint, method, *args)
        while isinstance(found, int) and reaching.is_alive():
            found = self.call(endpoint, method, *args, timeout=QUICK)
        return found

    def insist(self, endpoint: str, method: str, *args: Any) -> Any:
        """As `call`, again and again until nothing fails any more."""
        wait_until(lambda: isinstance(self.call(endpoint, method, *args, timeout=2.0), int))

    def use_everything(self, endpoint: str) -> dict[str, Any]:
        """One of each kind of call."""
        told: list[Any] = []
        heard = threading.Event()

        def hear(value: float, *_: Any) -> None:
            told.append(value)
            heard.set()

        image = payload(1, 1 << 20).reshape(1024, 1024)
        with Proxy(endpoint, timeout=CALL_TIMEOUT) as bench:
            bench.level_changed.connect(hear)
            bench.level = 2.5
            heard.wait(CALL_TIMEOUT)
            with lock(bench, ttl=10.0):
                under_lock = bench.add(2, 3)
            return {
                "value": bench.level,
                "array": digest(np.ascontiguousarray(bench.turned(image))) == digest(image[::-1].copy()),
                "stream": list(bench.count(100)) == list(range(100)),
                "future": bench.later(42).result(CALL_TIMEOUT),
                "lock": under_lock,
                "signal": told,
            }

    def plane(self, name: str) -> str:
        """How the notifications of a subscription come: ``broadcast``, ``mailbox``, or its link's transport."""
        wanted = self.readings[name].subscription
        assert wanted is not None
        told = self.agent.statistics()["subscriptions"]
        [found] = [each for each in told if each["topic"] == wanted.topic]
        if found["policy"] == "mailbox":
            return "mailbox"
        return "broadcast" if found["link"] is None else found["link"]["transport"]


def plane_of(policy: Policy, single_port: bool = False) -> str:
    """What `Resident.plane` tells of a subscription to another host."""
    if policy.name == "mailbox":
        return "mailbox"
    return "broadcast" if policy.lossy and not single_port else "tcp"


EVERYTHING = {"value": 2.5, "array": True, "stream": True, "future": 42, "lock": 5, "signal": [2.5]}
"""What `Resident.use_everything` returns when all of it works."""


@contextmanager
def residing(namespace: str, environ: dict[str, str]) -> Iterator[Resident]:
    """A resident, in this process."""
    enter(namespace)
    for name in [name for name in os.environ if name.startswith("PZC_")]:
        del os.environ[name]
    os.environ.update(environ)
    with ExitStack() as stack:
        yield Resident(stack)


class Residents(ExitStack):
    """The residents of one test; all are killed at its end."""

    def __init__(self, forge: Forge) -> None:
        super().__init__()
        self._forge = forge

    def at(self, host: Host, **environ: str) -> Hand:
        """A process on a host, with the key and these variables."""
        hand = Hand(self._forge, host.namespace, {"PZC_KEY": KEY, **environ}, make=residing)
        self.callback(hand.kill)
        return hand

    def agent(self, host: Host, rep: str = "", pub: str = "", **options: Any) -> tuple[Hand, str]:
        """An agent on a host, and its endpoint."""
        hand = self.at(host)
        return hand, hand.ask("open", rep or f"tcp://{host.address}:0", pub, **options)[0]

    def registry(self, host: Host, port: int) -> str:
        """A registry on a host; returns where it is."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "endpoint"
            self.at(host).start("register", f"tcp://0.0.0.0:{port}", str(file))
            return (
                eventually(lambda: file.exists() and file.read_text())
                .strip()
                .replace("0.0.0.0", host.address)
            )

    def server(self, host: Host, rep: str = "", pub: str = "", **options: Any) -> tuple[Hand, str]:
        """A server on a host, and its endpoint."""
        hand = self.at(host)
        return hand, hand.ask("serve", rep or f"tcp://{host.address}:0", pub, **options)[0]
