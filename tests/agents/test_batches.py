from __future__ import annotations

import pytest

from pzc import (
    MemberRefused,
    Protocol,
    Proxy,
    Refused,
    Server,
    batch,
)
from pzc.agents.client.batches import Batch

from tests.contract.rigs import batching, original
from tests.contract.rigs.calling import KEY, TIMEOUT, proxied

bench = batching.bench


def run(recorded: Batch) -> None:
    with recorded:
        pass


def test_a_failing_call_stops_the_batch_and_says_which_it_was(bench: tuple[Server, Proxy]) -> None:
    _, proxy = bench
    b = batch(proxy)
    b.move(1)
    b.fail()
    b.move(1)
    with pytest.raises(ValueError, match="out of range") as caught:
        run(b)
    assert b.results == [1]
    notes = "\n".join(caught.value.__notes__)
    assert "in call 2 of 3 of a batch (exec fail)" in notes
    assert "Remote traceback" in notes
    assert proxy.x == 1


def test_an_unknown_member_fails_in_its_place(bench: tuple[Server, Proxy]) -> None:
    b = batch(bench[1])
    b.move(1)
    b.nope
    with pytest.raises(AttributeError, match="nope"):
        run(b)
    assert b.results == [1]


def test_private_names_are_refused_at_once(bench: tuple[Server, Proxy]) -> None:
    with batch(bench[1]) as b:
        with pytest.raises(MemberRefused):
            b._x
        with pytest.raises(MemberRefused):
            b._x = 3
    assert b.results == []


def test_a_batch_may_be_sent_without_waiting(bench: tuple[Server, Proxy]) -> None:
    calls = [["exec", {"name": "move", "method": "__call__", "args": (1,)}], ["getattr", {"name": "x"}]]
    outcome = bench[1]._proxy_remote.request_later("batch", {"calls": calls}).result(TIMEOUT)
    assert (outcome.results, outcome.error) == ([1, 1], None)


@pytest.mark.usefixtures("beside_originals")
def test_an_original_pizco_refuses_a_batch() -> None:
    key = KEY.encode()
    with (
        original.Server(key, original.invented(key)) as server,
        proxied(server.endpoint, timeout=TIMEOUT, protocol=Protocol(KEY, "pickle2")) as psu,
    ):
        with pytest.raises(Refused, match="an original Pizco cannot run a batch"):
            batch(psu)
