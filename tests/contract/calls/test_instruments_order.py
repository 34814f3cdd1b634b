"""All paths of one server share its lane: calls to channels never overlap, from ten clients and by every carrier."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from typing import Any

import pytest

from pzc import Protocol, Proxy, Server

from tests.contract.rigs.drivers import BOTH_KEYS
from tests.contract.rigs.supply import KEY, TIMEOUT

CALLS = 5


class Output:
    """One of two channels of a driver that is not made for threads."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    @property
    def voltage(self) -> float:
        """Takes a while."""
        return self._driver.enter()

    @voltage.setter
    def voltage(self, value: float) -> None:
        self._driver.enter()

    def off(self) -> float:
        """Takes a while."""
        return self._driver.enter()


class Driver:
    """Notes which thread was in it, and whether two were."""

    def __init__(self) -> None:
        self.ch1, self.ch2 = Output(self), Output(self)
        self.channels = [self.ch1, self.ch2]
        self._inside = threading.Lock()
        self._threads: set[int] = set()
        self._overlaps = self._calls = 0

    def enter(self) -> float:
        """A moment in which nobody else may be here."""
        if not self._inside.acquire(blocking=False):
            self._overlaps += 1
            self._inside.acquire()
        self._threads.add(threading.get_ident())
        self._calls += 1
        threading.Event().wait(0.001)
        self._inside.release()
        return 1.0

    def found(self) -> dict[str, int]:
        """What was noted."""
        return {"overlaps": self._overlaps, "threads": len(self._threads), "calls": self._calls}


def use(target: str, key: str, transport: str, number: int) -> None:
    """What one of the clients does."""
    with Proxy(target, protocol=Protocol(key), timeout=TIMEOUT, transport=transport) as driver:
        mine: Any = (driver.ch1, driver.ch2, driver.channels[0], driver.channels[1])[number % 4]
        for _ in range(CALLS):
            mine.off()
            mine.voltage = 1.0
            assert mine.voltage == 1.0
            driver.enter()


IN_A_PROCESS = """
import sys
from pzc import Protocol, Proxy
driver = Proxy(sys.argv[1], protocol=Protocol(sys.argv[2]), timeout=10)
for _ in range(5):
    driver.ch1.off(), driver.ch2.off(), driver.channels[0].voltage, driver.enter()
"""


@BOTH_KEYS
@pytest.mark.needs("unix")
@pytest.mark.parametrize("affine", [False, True], ids=["any thread", "one thread"])
def test_calls_of_ten_clients_to_two_channels_never_overlap(key: str, affine: bool) -> None:
    driver = Driver()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            Server(driver, protocol=Protocol(key), discovery=False, thread_affine=affine)
        )
        target = server.rep_endpoint
        command = [sys.executable, "-P", "-c", IN_A_PROCESS, target, key]
        children = [subprocess.Popen(command) for _ in range(2)]
        threads = [
            threading.Thread(target=use, args=(target, key, ("tcp", "unix")[number % 2], number))
            for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(3 * TIMEOUT)
        assert [child.wait(3 * TIMEOUT) for child in children] == [0, 0]
        found = driver.found()
    assert found["overlaps"] == 0
    assert found["calls"] == 8 * CALLS * 4 + 2 * CALLS * 4
    assert not affine or found["threads"] == 1


def test_the_lock_of_a_server_holds_for_its_channels() -> None:
    from pzc import LockedBy, lock

    driver = Driver()
    protocol = Protocol(KEY)
    with Server(driver, protocol=protocol, discovery=False) as server:
        with (
            Proxy(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT) as one,
            Proxy(server.rep_endpoint, protocol=protocol, timeout=0.5) as two,
            lock(one),
        ):
            assert one.ch1.off() == 1.0
            for refused in (lambda: two.ch1.off(), lambda: setattr(two.channels[1], "voltage", 2.0)):
                with pytest.raises(LockedBy):
                    refused()
