"""``pzc lock``, ``unlock`` and ``stop``: an instrument is kept for work by hand, freed, ended."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from pzc import LockedBy, Protocol, Proxy, Server, close, lock
from pzc.testing import Result, Running, command

from tests.contract.rigs.calling import ServerProcess
from tests.contract.rigs.supply import KEY, TIMEOUT, Supply


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Supply(), protocol=Protocol(KEY), discovery=False) as made:
        yield made


@pytest.fixture
def psu(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT)
    yield proxy
    close(proxy)


def shell(*arguments: str, **options: object) -> Result:
    return command(*arguments, environment={"PZC_KEY": KEY}, **options)  # type: ignore[arg-type]


def test_a_lock_keeps_others_off_until_it_is_interrupted(server: Server, psu: Proxy) -> None:
    refused: list[str] = []

    def meanwhile(running: Running) -> None:
        assert "is locked by" in running.line()
        try:
            psu.ch1.off()
        except LockedBy as exc:
            refused.append(str(exc))

    outcome = shell("lock", server.rep_endpoint, "--reason", "fuse", meanwhile=meanwhile)
    assert (outcome.status, outcome.err) == (0, "")
    assert "fuse" in refused[0]
    assert psu.ch1.off() == 1


def test_a_lock_for_some_time_ends_by_itself(server: Server, psu: Proxy) -> None:
    outcome = shell("lock", server.rep_endpoint, "--for", "0.1", "--json")
    assert outcome.status == 0
    assert outcome.json["reason"] == ""
    assert psu.ch1.off() == 1


def test_a_lock_that_is_taken_away_is_an_error(server: Server, psu: Proxy) -> None:
    def meanwhile(running: Running) -> None:
        running.line()
        with lock(psu, takeover=True):
            assert running.wait(TIMEOUT)

    outcome = shell("lock", server.rep_endpoint, meanwhile=meanwhile)
    assert outcome.status == 1
    assert "LockLost" in outcome.err


def test_ctrl_c_ends_a_lock_although_the_server_stands_still() -> None:
    with ServerProcess("Notebook", key=KEY) as frozen:

        def meanwhile(running: Running) -> None:
            running.line()
            frozen.freeze()
            running.kill(signal.SIGINT)
            assert running.wait(TIMEOUT)

        outcome = shell("lock", frozen.endpoint, meanwhile=meanwhile)
    assert outcome.status == 1
    assert "CallTimeout" in outcome.err


def test_unlock_takes_the_lock_away_and_tells_whose_it_was(server: Server, psu: Proxy) -> None:
    held = lock(psu)
    outcome = shell("unlock", server.rep_endpoint)
    assert outcome.status == 0
    assert outcome.out.rstrip().endswith(f"is free; it was locked by {held.owner}")
    assert shell("get", f"{server.rep_endpoint}.voltage").status == 0


def test_unlock_of_what_nobody_holds_says_so(server: Server) -> None:
    outcome = shell("unlock", server.rep_endpoint)
    assert (outcome.status, outcome.out) == (0, "")
    assert "nobody has locked" in outcome.err


def test_stop_ends_a_server_and_returns_when_it_has_ended(server: Server) -> None:
    outcome = shell("stop", server.rep_endpoint)
    assert (outcome.status, outcome.out) == (0, "")
    assert server.join(0)
    assert shell("stop", server.rep_endpoint, "--timeout", "0.5").status == 1
