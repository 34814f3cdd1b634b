"""A lock that was lost is taken again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pzc import LockedBy, LockLost, PeerLost, Protocol, Server, batch, lock

from tests.contract.rigs.calling import KEY, TIMEOUT, Instrument, proxied


def in_a_batch(psu: Any) -> object:
    """A call in one."""
    with batch(psu) as calls:
        calls.ramp(2)
    return calls.results


WAYS = {
    "call": lambda psu: psu.ramp(2),
    "future": lambda psu: psu.ramp.future(2).result(TIMEOUT),
    "batch": in_a_batch,
}


def met_anew(ask: Callable[[Any], object], psu: Any) -> object:
    """The first future may go with the connection to the server that was stopped."""
    try:
        return ask(psu)
    except PeerLost:
        return ask(psu)


@contextmanager
def restarted(server: Server) -> Iterator[Server]:
    """The same server again, which knows of no lock."""
    server.stop()
    with Server(Instrument(), server.rep_endpoint, protocol=Protocol(KEY)) as again:
        yield again


@pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)
def test_a_lock_that_was_lost_can_be_taken_again_before_it_is_given_back(
    ask: Callable[[Any], object],
) -> None:
    server = Server(Instrument(), protocol=Protocol(KEY))
    with (
        proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as psu,
        proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as other,
    ):
        held = lock(psu)
        with restarted(server), held:
            with pytest.raises(LockLost):
                met_anew(ask, psu)
            with pytest.raises(LockLost):  # until it is taken again
                ask(psu)
            with lock(psu):
                assert ask(psu) in (4, [4])
                with pytest.raises(LockedBy):
                    other.ramp(2)
            assert ask(psu) in (4, [4])


def test_a_lock_that_was_lost_to_somebody_is_not_taken_again() -> None:
    server = Server(Instrument(), protocol=Protocol(KEY))
    with (
        proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as psu,
        proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as other,
    ):
        held = lock(psu)
        with restarted(server), held, lock(other):
            with pytest.raises(LockLost):
                psu.ramp(2)
            with pytest.raises(LockedBy):
                lock(psu)
            with pytest.raises(LockLost):
                psu.ramp(2)
