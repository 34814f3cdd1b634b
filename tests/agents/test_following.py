"""Open subscriptions follow a publisher that comes back as another one, or end and say why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pzc import Policy, block, drop, latest, mailbox

from tests.agents.following import following
from tests.contract.rigs.processes import Forge, Hand, Workers

Start = Callable[..., Hand]

LOSSY = pytest.mark.parametrize("policy", [drop(), latest(1000)], ids=["drop", "latest"])
PLANES = pytest.mark.parametrize(
    ("policy", "transport"),
    [(drop(), "tcp"), (drop(), "auto"), (block(5.0), "unix"), (block(5.0), "tcp"), (mailbox(), "auto")],
    ids=["broadcast", "lossy", "unix", "tcp", "mailbox"],
)


@pytest.fixture
def start(forge: Forge, workers: Workers) -> Start:
    def start(*given: object) -> Hand:
        hand = Hand(forge, *given, make=following)
        workers.callback(hand.kill)
        return hand

    return start


def replace(publisher: Hand, reader: Hand, start: Start, **how: object) -> tuple[Hand, str]:
    """Kill a publisher and start another one at its endpoint, which the reader sees when that is ready."""
    endpoint = publisher.ask("endpoints")[0]
    reader.freeze()
    publisher.kill()
    after = start(endpoint, how.get("single_port", False), how.get("type", ""))
    after.ask("endpoints")
    reader.thaw()
    return after, endpoint


@LOSSY
@pytest.mark.parametrize(("transport", "way"), [("auto", "unix"), ("tcp", "tcp")])
def test_a_broadcast_subscription_goes_on_over_a_link_when_its_publisher_comes_back_with_a_single_port(
    start: Start, policy: Policy, transport: str, way: str
) -> None:
    before, reader = start("tcp://127.0.0.1:0", False, "", False), start()
    reader.ask("follow", "r", before.ask("endpoints")[0], policy, transport)
    assert reader.ask("plane", "r") == "broadcast"
    before.ask("publish_numbers", 1, 3)
    reader.ask("account", "r", 3)
    after, _ = replace(before, reader, start, single_port=True)
    assert after.ask("wait_for_subscribers", "t", 1)
    assert reader.ask("wait_for", "r", "gaps") == [(0, True)]
    after.ask("publish_numbers", 1, 5)
    found = [(number, number) for number in (1, 2, 3, 1, 2, 3, 4, 5)]
    assert reader.ask("account", "r", 8) == (8, 0, found)
    assert reader.ask("plane", "r") == way


@pytest.mark.slow
def test_it_goes_on_when_that_one_is_restarted_again_with_and_without_a_single_port(start: Start) -> None:
    publisher, reader = start(), start()
    reader.ask("follow", "r", publisher.ask("endpoints")[0], drop(), "tcp")
    for count, single in enumerate((True, False, True), 1):
        publisher, _ = replace(publisher, reader, start, single_port=single)
        assert publisher.ask("wait_for_subscribers", "t", 1)
        publisher.ask("publish_numbers", 1, 1)
        reader.ask("account", "r", count)
    assert reader.ask("wait_for", "r", "gaps", 3) == [(0, True)] * 3


def test_frames_end_when_the_publisher_comes_back_without_broadcasts(start: Start) -> None:
    before, reader = start(), start()
    reader.ask("follow", "r", before.ask("endpoints")[0], drop(), raw=True)
    replace(before, reader, start, single_port=True)
    assert "raw frames" in reader.ask("wait_for", "r", "lost")[0]
    assert reader.ask("refusal", "r") == "PolicyRefused"


@PLANES
def test_a_subscription_ends_when_its_publisher_comes_back_with_another_type(
    start: Start, policy: Policy, transport: str
) -> None:
    before, reader = start("tcp://127.0.0.1:0", False, "Picture"), start()
    reader.ask("follow", "r", before.ask("endpoints")[0], policy, transport, type="Picture")
    after, endpoint = replace(before, reader, start, type="Sound")
    [reason] = reader.ask("wait_for", "r", "lost")
    assert "Sound" in reason
    assert "Picture" in reason
    assert reader.ask("refusal", "r") == "TypeMismatch"
    reader.ask("follow", "later", endpoint, policy, transport, type="Sound")
    after.ask("publish_numbers", 1, 3)
    reader.ask("account", "later", 3)
    assert reader.ask("account", "r", 0) == (0, 0, [])


@PLANES
@pytest.mark.parametrize(
    "type", ["Picture", pytest.param("", marks=pytest.mark.slow)], ids=["the same", "none"]
)
def test_it_goes_on_with_one_of_the_same_type_or_of_none(
    start: Start, policy: Policy, transport: str, type: str
) -> None:
    before, reader = start("tcp://127.0.0.1:0", False, "Picture"), start()
    reader.ask("follow", "r", before.ask("endpoints")[0], policy, transport, type="Picture")
    after, _ = replace(before, reader, start, type=type)
    assert reader.ask("wait_for", "r", "gaps") == [(0, True)]
    after.ask("publish_numbers", 1, 3)
    assert reader.ask("account", "r", 3)[:2] == (3, 0)


@PLANES
def test_a_restarted_publisher_is_subscribed_to_by_an_agent_that_knows_the_one_before(
    start: Start, policy: Policy, transport: str
) -> None:
    before, reader = start(), start()
    reader.ask("follow", "r", before.ask("endpoints")[0], policy, transport)
    reader.ask("close", "r")
    after, endpoint = replace(before, reader, start)
    reader.ask("follow", "again", endpoint, policy, transport)
    after.ask("publish_numbers", 1, 3)
    assert reader.ask("account", "again", 3)[:2] == (3, 0)
