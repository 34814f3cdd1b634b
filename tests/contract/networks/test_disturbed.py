"""Networks that are slow, lose packets, or come apart and heal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest

from pzc import Policy, block, drop, latest, mailbox

from tests.contract.rigs.namespaces import Host, Lab
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.processes import Hand
from tests.contract.rigs.residents import EVERYTHING, Residents

Pair = tuple[Host, Host]

DELAY = 0.05
LOSS = 5

complete = pytest.mark.parametrize("policy", [block(timeout=20.0), mailbox()], ids=lambda policy: policy.name)


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Pair:
    segment = lab.segment()
    return lab.host("near", segment), lab.host("far", segment)


@pytest.fixture(scope="module")
def distant(lab: Lab) -> Pair:
    segment = lab.segment()
    return lab.host("here", segment), lab.host("there", segment, delay=DELAY)


@pytest.fixture(params=["delay", "loss"])
def disturbed(request: pytest.FixtureRequest, pair: Pair, distant: Pair) -> Iterator[Pair]:
    with ExitStack() as stack:
        if request.param == "loss":
            stack.enter_context(pair[1].loss(LOSS))
        yield pair if request.param == "loss" else distant


def test_every_kind_of_call_completes(disturbed: Pair, residents: Residents) -> None:
    here, there = disturbed
    _, served = residents.server(there)
    assert residents.at(here).ask("use_everything", served) == EVERYTHING


@complete
def test_a_reader_that_is_to_get_everything_does(
    disturbed: Pair, residents: Residents, policy: Policy
) -> None:
    here, there = disturbed
    publisher, at = residents.agent(there)
    reader, _ = residents.agent(here)
    reader.ask("subscribe", "r", at, "frame", policy, how="hash")
    publisher.ask("publish", "frame", [10, 100, 50_000] * 20)
    received, dropped, found = reader.ask("account", "r", 60)
    assert (received, dropped) == (60, 0)
    assert [number for number, _ in found] == list(range(1, 61))


@pytest.mark.parametrize("policy", [drop(), latest(5)], ids=["drop", "latest"])
def test_what_a_lossy_reader_misses_is_counted(disturbed: Pair, residents: Residents, policy: Policy) -> None:
    here, there = disturbed
    publisher, at = residents.agent(there)
    reader, _ = residents.agent(here)
    reader.ask("subscribe", "r", at, "frame", policy, how="hash")
    publisher.ask("publish", "frame", [10, 100, 5000] * 20)
    received, dropped, _ = reader.ask("account", "r", 60)
    assert received + dropped == 60


def apart(far: Host, how: str) -> AbstractContextManager[None]:
    return far.unplugged() if how == "unplugged" else far.cut_off()


@pytest.mark.parametrize("how", ["dropped", "unplugged"])
def test_a_call_while_the_network_is_apart_fails_in_time_and_the_same_proxy_works_after(
    pair: Pair, residents: Residents, how: str
) -> None:
    near, far = pair
    _, served = residents.server(far)
    client = residents.at(near)
    assert client.ask("call", served, "add", 1, 2) == 3
    with apart(far, how):
        assert client.ask("call", served, "add", 1, 2, timeout=1.0) in ("CallTimeout", "PeerLost")
    assert client.ask("call", served, "add", 2, 3) == 5


def hearing(residents: Residents, pair: Pair, policy: Policy) -> tuple[Hand, Hand]:
    """A publisher far away, and a reader that has its first notification."""
    publisher, at = residents.server(pair[1])
    reader, _ = residents.agent(pair[0])
    reader.ask("call", at, "add", 1, 2)
    reader.ask("subscribe", "r", at, "frame", policy, how="hash")
    publisher.ask("publish", "frame", [100])
    reader.ask("wait_for", "r", "found", 1)
    return publisher, reader


@complete
def test_a_reader_that_is_to_get_everything_loses_nothing_in_a_short_partition(
    pair: Pair, residents: Residents, policy: Policy
) -> None:
    publisher, reader = hearing(residents, pair, policy)
    at = publisher.ask("endpoints")[0]
    with pair[1].cut_off():
        publisher.start("publish", "frame", [100] * 99, 2)
        assert reader.ask("call", at, "add", 1, 2, timeout=2.0) in ("CallTimeout", "PeerLost")
    publisher.finish()
    received, dropped, found = reader.ask("account", "r", 100)
    assert (received, dropped) == (100, 0)
    assert [number for number, _ in found] == list(range(1, 101))


@pytest.mark.parametrize(
    ("policy", "how"),
    [
        pytest.param(drop(), "unplugged", id="drop"),
        pytest.param(latest(5), "dropped", id="latest"),
    ],
)
def test_what_a_partition_takes_is_counted_when_it_heals(
    pair: Pair, residents: Residents, policy: Policy, how: str
) -> None:
    publisher, reader = hearing(residents, pair, policy)
    with apart(pair[1], how):
        reader.start("wait_for", "r", "lost")
        publisher.ask("publish", "frame", [100] * 49, 2)
        assert "unreachable" in reader.finish()[0]
    publisher.ask("publish", "frame", [100] * 50, 51)
    received, dropped, _ = reader.ask("account", "r", 100)
    assert received + dropped == 100
    publisher.ask("publish", "frame", [100], 101)
    reader.ask("account", "r", 101)


@pytest.mark.parametrize("how", ["dropped", "unplugged"])
def test_a_mailbox_keeps_what_is_published_in_a_long_partition_and_gives_it_once(
    pair: Pair, residents: Residents, how: str
) -> None:
    publisher, reader = hearing(residents, pair, mailbox())
    with apart(pair[1], how):
        reader.start("wait_for", "r", "lost")
        publisher.ask("publish", "frame", [100] * 49, 2)
        assert "unreachable" in reader.finish()[0]
    publisher.ask("publish", "frame", [100] * 50, 51)
    received, dropped, found = reader.ask("account", "r", 100)
    assert (received, dropped) == (100, 0)
    assert [number for number, _ in found] == list(range(1, 101))
    assert reader.ask("wait_for", "r", "gaps", 0) == []


def test_what_a_mailbox_could_not_hold_in_a_partition_is_counted_when_it_heals(
    pair: Pair, residents: Residents
) -> None:
    publisher, reader = hearing(residents, pair, mailbox(max_messages=10))
    wait_until(lambda: publisher.ask("unacknowledged") == 0)
    with pair[1].cut_off():
        reader.start("wait_for", "r", "lost")
        publisher.ask("publish", "frame", [100] * 49, 2)
        assert "unreachable" in reader.finish()[0]
    received, dropped, found = reader.ask("account", "r", 50)
    assert received + dropped == 50
    numbers = [number for number, _ in found]
    # Whatever is on its way when the network is cut counts for the bound, and may still arrive.
    assert len(numbers) == received <= 1 + 10 + 10
    assert (numbers[0], numbers[-1]) == (1, 50)
    assert numbers == sorted(set(numbers))
