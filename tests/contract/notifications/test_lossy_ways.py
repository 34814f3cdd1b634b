"""Which way `drop` and `latest` take when nobody says, and that every notification is accounted for on it."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from pzc import (
    Agent,
    AgentClosed,
    Notification,
    Policy,
    PolicyRefused,
    Protocol,
    block,
    drop,
    latest,
    mailbox,
)

from tests.contract.rigs.children import Child
from tests.contract.rigs.evidence import digest, payload
from tests.contract.rigs.pairs import LONG, Publishing, pair, read, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, balance
from tests.contract.rigs.processes import Workers


def named(policy: Policy | None) -> str:
    return "default" if policy is None else policy.name


lossy = pytest.mark.parametrize("policy", [None, drop(10_000), latest(10_000)], ids=named)
LARGE = 1 << 20


def stranger() -> Agent:
    """A reader that shares no link inside the process with agents of the default protocol."""
    return Agent(protocol=Protocol(KEY, accept=("PZC01", "PZC00")))


def links_of(publisher: Agent) -> list[str]:
    return [link["transport"] for link in publisher.statistics()["links"]["links"]]


@lossy
def test_a_reader_of_the_same_process_gets_the_very_object(policy: Policy | None) -> None:
    found: list[Notification] = []
    content = {"volts": [1, 2]}
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", found.append, policy=policy)
        publisher.publish("t", content)
        wait_until(lambda: found)
        assert (subscription.transport, links_of(publisher)) == ("inproc", ["inproc"])
    assert found[0].content is content


def test_whoever_receives_inside_the_process_has_a_copy() -> None:
    content = [1]
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        publisher.publish("t", content)
        received = subscription.recv(TIMEOUT).content
    assert received == content
    assert received is not content


@pytest.mark.needs("unix")
@lossy
def test_a_reader_of_this_host_takes_the_unix_socket(workers: Workers, policy: Policy | None) -> None:
    hand, endpoint = workers.publisher()
    with Agent(protocol=Protocol(KEY)) as reader:
        subscription = reader.subscribe(endpoint, "t", policy=policy)
        assert subscription.transport == "unix"
        assert reader.statistics()["subscriptions"][0]["transport"] == "unix"
        hand.ask("publish", "t", [10, 100_000])
        assert [digest(subscription.recv(TIMEOUT).content) for _ in range(2)] == [
            digest(payload(1, 10)),
            digest(payload(2, 100_000)),
        ]


def test_raw_frames_come_by_broadcast() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", raw=True)
        publisher.publish("t", 1)
        assert len(subscription.recv(TIMEOUT).frames or ()) == 5
        assert links_of(publisher) == []


def test_an_original_publisher_is_heard_by_broadcast() -> None:
    with Agent(protocol=Protocol("", accept=("PZC00",))) as publisher, Agent(protocol=Protocol("")) as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
        publisher.publish("t", 1)
        assert subscription.recv(TIMEOUT).content == 1
        assert links_of(publisher) == []


def test_what_links_may_not_have_comes_by_broadcast() -> None:
    with pair() as (publisher, reader):
        publisher.advertise("t", policies=["block"])
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        publisher.publish("t", 1)
        assert subscription.recv(TIMEOUT).content == 1
        assert links_of(publisher) == []


@pytest.mark.needs("unix")
def test_a_topic_that_does_not_leave_its_host_needs_no_transport() -> None:
    with pair() as (publisher, reader), stranger() as other:
        publisher.advertise("t", scope="host")
        publisher.advertise("mine", scope="process")
        assert reader.subscribe(publisher.rep_endpoint, "t").transport == "inproc"
        assert other.subscribe(publisher.rep_endpoint, "t").transport == "unix"
        with pytest.raises(PolicyRefused, match="does not leave its process"):
            other.subscribe(publisher.rep_endpoint, "mine")


def test_an_agent_is_one_subscriber_on_both_planes() -> None:
    with pair() as (publisher, reader):
        for transport in ("auto", "tcp"):
            reader.subscribe(publisher.rep_endpoint, "t", transport=transport)
        assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
        assert not publisher.wait_for_subscribers("t", 2, 0)


def test_subscriptions_of_all_policies_share_a_link() -> None:
    with pair() as (publisher, reader):
        for policy in (LONG, latest(), drop()):
            reader.subscribe(publisher.rep_endpoint, "t", policy=policy)
        assert links_of(publisher) == ["inproc"]


def test_a_lossy_subscription_shares_the_link_of_a_stronger_policy_when_it_asks_for_that_way() -> None:
    with pair() as (publisher, reader):
        waiting = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="inproc")
        lossy = reader.subscribe(publisher.rep_endpoint, "t", policy=latest(), transport="inproc")
        for number in range(3):
            publisher.publish("t", number)
        assert links_of(publisher) == ["inproc"]
        assert read(waiting, 3) == [0, 1, 2]
        assert (read(lossy, 1), balance(lossy)) == ([2], 3)


@pytest.mark.parametrize("near", [True, False], ids=["inproc", "unix"])
def test_a_lossy_subscription_that_nobody_reads_does_not_hold_up_a_block_of_the_same_process(
    near: bool,
) -> None:
    with (
        Agent(protocol=Protocol(KEY)) as publisher,
        Agent(protocol=Protocol(KEY)) if near else stranger() as reader,
    ):
        waiting = reader.subscribe(publisher.rep_endpoint, "t", policy=block(2))
        unread = reader.subscribe(publisher.rep_endpoint, "t", policy=drop(1000))
        for number in range(10):
            publisher.publish("t", number)
            assert waiting.recv(TIMEOUT).content == number
        assert (waiting.transport, unread.transport) == (("inproc", "inproc") if near else ("unix", "unix"))
        assert read(unread, 10) == [*range(10)]


@pytest.mark.needs("unix")
@pytest.mark.usefixtures("quick")
def test_a_restarted_publisher_is_followed_over_a_new_link() -> None:
    with Agent(protocol=Protocol(KEY)) as reader, Child() as first:
        subscription = reader.subscribe(first.rep, "t")
        reader.request(first.rep, ["t", 3], TIMEOUT)
        assert read(subscription, 3) == [0, 1, 2]
        first.kill()
        with Child(first.rep, first.pub) as second:
            wait_until(lambda: subscription.gaps)
            reader.request(second.rep, ["t", 3], TIMEOUT)
            assert read(subscription, 3) == [0, 1, 2]
            assert (subscription.transport, [gap.restarted for gap in subscription.gaps]) == ("unix", [True])
            assert (subscription.received, subscription.dropped) == (6, 0)


@pytest.mark.needs("memfd", "unix")
def test_64_mib_lie_in_shared_memory_by_default(workers: Workers) -> None:
    size = 64 << 20
    hand, endpoint = workers.publisher()
    with Agent(protocol=Protocol(KEY)) as reader:
        subscription = reader.subscribe(endpoint, "t", policy=latest())
        hand.ask("publish", "t", [size])
        with subscription.recv_zero_copy(TIMEOUT) as notification:
            told = hand.ask("statistics")
            assert (told["ring"]["blocks"], [link["leases"] for link in told["links"]]) == (1, [1])
            assert not notification.content.flags.writeable
            assert digest(notification.content) == digest(payload(1, size))


@pytest.mark.needs("unix")
@pytest.mark.parametrize("policy", [drop(10), latest(1), latest(5)], ids=named)
def test_a_reader_that_stands_still_accounts_for_everything(workers: Workers, policy: Policy) -> None:
    publisher, endpoint = workers.publisher()
    reader = workers.start()
    assert reader.ask("subscribe", "s", endpoint, "t", policy, how="hash") == "unix"
    sizes = [100, LARGE, 30_000] * 100
    reader.freeze()
    publisher.ask("publish", "t", sizes)
    held = publisher.ask("statistics")["links"][0]["leases"]
    reader.thaw()
    received, dropped, found = reader.ask("account", "s", len(sizes))
    assert received + dropped == len(sizes)
    assert dropped > 0
    assert held <= 2 + 5  # on their way, and kept
    assert found == [(number, digest(payload(number, sizes[number - 1]))) for number, _ in found]


@pytest.mark.needs("unix")
def test_a_publisher_of_small_messages_has_as_much_patience_as_on_the_broadcast_plane(
    workers: Workers,
) -> None:
    publisher, endpoint = workers.publisher()
    reader = workers.start()
    reader.ask("subscribe", "s", endpoint, "t", drop(10), how="hash")
    reader.freeze()
    publisher.ask("publish", "t", [64] * 5000)
    assert publisher.ask("statistics")["links"][0]["topics"]["t"]["dropped"] == 0
    reader.thaw()
    received, dropped, _ = reader.ask("account", "s", 5000)
    assert received + dropped == 5000


@pytest.mark.needs("memfd", "unix")
@pytest.mark.parametrize("policy", [drop(), latest()], ids=named)
def test_whoever_keeps_every_array_goes_on_getting_others(workers: Workers, policy: Policy) -> None:
    publisher, endpoint = workers.publisher()
    kept: list[Notification] = []
    with Agent(protocol=Protocol(KEY)) as reader:
        reader.subscribe(endpoint, "t", kept.append, policy=policy)
        for number in range(1, 11):
            publisher.ask("publish", "t", [LARGE], number)
            wait_until(lambda number=number: len(kept) == number)
        wait_until(lambda: publisher.ask("statistics")["links"][0]["leases"] == 1)
    assert [digest(each.content) for each in kept] == [digest(payload(n, LARGE)) for n in range(1, 11)]


@pytest.mark.parametrize("policy", [drop(20_000), latest(1)], ids=named)
@pytest.mark.parametrize("size", [64, LARGE])
def test_what_was_published_before_a_stop_is_accounted_for(
    workers: Workers, policy: Policy, size: int
) -> None:
    many = 5_000 if size == 64 else 20
    publisher, endpoint = workers.publisher()
    reader = workers.start()
    reader.ask("subscribe", "s", endpoint, "t", policy, how="hash")
    publisher.ask("publish", "t", [size] * many)
    publisher.stop()
    received, dropped, found = reader.ask("account", "s", many)
    assert received + dropped == many
    assert found[-1] == (many, digest(payload(many, size)))


@pytest.mark.parametrize("policy", [drop(20_000), latest(1), LONG, mailbox(100)], ids=named)
def test_what_threads_publish_while_their_agent_stops_is_accounted_for_or_refused(
    workers: Workers, policy: Policy
) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        reader.ask("subscribe", "s", publisher.rep_endpoint, "t", policy, "unix", "collect")
        publishing = [Publishing(publisher, "t", count()) for _ in range(3)]
        for each in publishing:
            each.wait_for(500)
        publisher.stop()
        for each in publishing:
            each.join(TIMEOUT)
    assert [type(each.error) for each in publishing] == [AgentClosed] * 3
    published = sum(each.returned for each in publishing)
    received, dropped, _ = reader.ask("account", "s", published)
    assert received + dropped == published


def test_a_stop_drops_what_a_reader_that_stands_still_cannot_take(workers: Workers) -> None:
    publisher, endpoint = workers.publisher()
    reader = workers.start()
    reader.ask("subscribe", "s", endpoint, "t", latest(5), how="hash")
    reader.freeze()
    publisher.ask("publish", "t", [LARGE] * 20)
    publisher.stop()


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_stop_tells_a_reader_what_its_mailbox_kept_and_it_had_no_room_for(
    workers: Workers, transport: str
) -> None:
    publisher, endpoint = workers.publisher()
    over = threading.Event()
    with stranger() as reader:
        subscription = reader.subscribe(
            endpoint, "t", lambda _: over.wait(TIMEOUT), policy=mailbox(100), transport=transport
        )
        publisher.ask("publish", "t", [1] * 1000)
        publisher.stop()
        over.set()
        wait_until(lambda: balance(subscription) == 1000)
        assert subscription.dropped >= 800
