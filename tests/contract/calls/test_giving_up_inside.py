"""A call that is given up while its method waits for another server."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pzc import CallCancelled, Protocol, Proxy, Server, cancelled, running, urgent

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied, until


class Supply:
    """Ramps until it is told to stop."""

    def __init__(self) -> None:
        self.began, self.stopped, self.opened = threading.Event(), threading.Event(), threading.Event()

    def ramp(self) -> str:
        """Until it is cancelled, or opened."""
        self.began.set()
        while not self.opened.wait(0.01):
            if cancelled():
                self.stopped.set()
                return "stopped"
        return "done"

    @urgent
    def off(self) -> str:
        """At once."""
        return "off"


class Scan:
    """Uses a supply behind another server."""

    def __init__(self, supply: Any) -> None:
        self._supply = supply
        self.ended = threading.Event()
        self.told: list[object] = []

    def run(self, **options: Any) -> None:
        """Ramp, then tidy up."""
        try:
            self.told.append(self._supply.ramp.options(**options)())
        except CallCancelled as exc:
            self.told.append(type(exc))
        finally:
            self.told.append(self._supply.off())
            self.ended.set()


def server_of(thing: object) -> Server:
    return Server(thing, protocol=Protocol(KEY))


def proxy_of(server: Server, transport: str = "auto") -> Proxy:
    return Proxy(server.rep_endpoint, protocol=Protocol(KEY), transport=transport, timeout=4 * TIMEOUT)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_what_a_call_waits_for_at_another_server_is_told_that_nobody_wants_it(transport: str) -> None:
    supply = Supply()
    with server_of(supply) as there, proxy_of(there, transport) as psu:
        scan = Scan(psu)
        with server_of(scan) as here, proxied(here.rep_endpoint, protocol=Protocol(KEY)) as client:
            future = client.run.future()
            assert supply.began.wait(TIMEOUT)
            future.cancel()
            assert supply.stopped.wait(TIMEOUT)
            assert scan.ended.wait(TIMEOUT)
            assert scan.told == ["stopped", "off"]  # what it asks for after that runs


def test_what_a_call_waits_for_goes_on_when_it_was_detached() -> None:
    supply = Supply()
    with server_of(supply) as there, proxy_of(there) as psu:
        scan = Scan(psu)
        with server_of(scan) as here, proxied(here.rep_endpoint, protocol=Protocol(KEY)) as client:
            future = client.run.future(detached=True)
            assert supply.began.wait(TIMEOUT)
            future.cancel()
            until(lambda: any(each.cancelled for each in running(client)))
            supply.opened.set()
            assert scan.ended.wait(TIMEOUT)
            assert scan.told == ["done", "off"]


def test_what_a_call_waits_for_never_runs_when_its_turn_has_not_come() -> None:
    supply = Supply()
    with server_of(supply) as there, proxy_of(there) as psu:
        scan = Scan(psu)
        with server_of(scan) as here, proxied(here.rep_endpoint, protocol=Protocol(KEY)) as client:
            busy = psu.ramp.future()
            assert supply.began.wait(TIMEOUT)
            future = client.run.future()
            until(lambda: len(running(psu)) == 2)
            future.cancel()
            assert scan.ended.wait(TIMEOUT)
            assert scan.told == [CallCancelled, "off"]
            busy.cancel()
