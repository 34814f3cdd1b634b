"""Mailboxes on one host: their way, and that what they keep takes no shared memory, whatever their readers do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pzc import Agent, PolicyRefused, Protocol, mailbox

from tests.contract.rigs.evidence import digest, payload
from tests.contract.rigs.mailing import publisher_and_reader
from tests.contract.rigs.pairs import LONG, OUTSIDE, Publishing, pair, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT
from tests.contract.rigs.processes import Workers

LARGE, MANY = 1 << 20, 30

NAMED = mailbox(name="archive")

on_one_host = pytest.mark.needs("memfd", "unix")


def large(count: int = MANY) -> list[tuple[int, str]]:
    return [(number, digest(payload(number, LARGE))) for number in range(1, count + 1)]


def publish(publisher: Agent, count: int = MANY) -> None:
    Publishing(publisher, "t", (payload(number, LARGE) for number in range(1, count + 1))).finish()


def ring(publisher: Agent) -> dict[str, int]:
    return publisher.statistics()["links"]["ring"]


def waiting(publisher: Agent) -> int:
    return sum(each["waiting"] for each in publisher.statistics()["mailboxes"])


# --- ways ----------------------------------------------------------------------------------------------------


@pytest.mark.needs("unix")
@pytest.mark.parametrize(
    ("asked", "taken"), [(None, "unix"), ("auto", "unix"), ("unix", "unix"), ("tcp", "tcp")]
)
def test_a_mailbox_on_this_host_goes_over_unix_unless_tcp_is_asked_for(asked: str | None, taken: str) -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox(), transport=asked)
        publisher.publish("t", 1)
        assert (subscription.recv(TIMEOUT).content, subscription.transport) == (1, taken)
        told = agent.statistics()["subscriptions"]
        assert [each["transport"] for each in told] == [taken]


def test_a_mailbox_is_refused_inproc() -> None:
    with publisher_and_reader() as (publisher, agent), pytest.raises(PolicyRefused, match="unix or tcp"):
        agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox(), transport="inproc")


def test_a_transport_of_the_environment_that_no_mailbox_has_leaves_it_the_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PZC_TRANSPORT", "inproc")
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        publisher.publish("t", 1)
        assert subscription.recv(TIMEOUT).content == 1


@pytest.mark.needs("unix")
def test_a_name_has_one_reader_in_a_process_whichever_way_is_asked_for() -> None:
    with publisher_and_reader() as (publisher, agent):
        made = [
            agent.subscribe(publisher.rep_endpoint, "t", policy=NAMED, transport=way)
            for way in ("unix", "tcp")
        ]
        publisher.publish("t", 1)
        assert [each.recv(TIMEOUT).content for each in made] == [1, 1]
        assert not any(each.closed for each in made)


@pytest.mark.parametrize("way", OUTSIDE)
def test_what_was_kept_goes_to_the_next_reader_as_soon_as_it_says_what_it_wants(
    way: str, timings: Callable[..., None]
) -> None:
    timings(link_look=60.0)  # so that nothing goes with a sign of life
    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(publisher.rep_endpoint, "t", policy=NAMED, transport=way)
        agent.stop()
        publisher.publish("t", 1)
        with Agent(protocol=Protocol(KEY)) as other:
            again = other.subscribe(publisher.rep_endpoint, "t", policy=NAMED, transport=way)
            assert again.recv(TIMEOUT).content == 1


# --- shared memory -------------------------------------------------------------------------------------------


@on_one_host
def test_what_a_reader_has_and_is_not_done_with_lies_in_no_block(workers: Workers) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", mailbox(), "unix")
        publish(publisher)
        reader.ask("pending", "t", MANY)
        assert ring(publisher)["blocks"] == 0
        assert waiting(publisher) == MANY
        assert reader.ask("take", "t", MANY) == large()


@on_one_host
def test_a_frozen_reader_holds_no_block_and_nobody_up_and_gets_everything_later(workers: Workers) -> None:
    frozen, well = workers.start(), workers.start()
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=4)
        frozen.ask("subscribe", "t", publisher.rep_endpoint, "t", mailbox(), "unix", "hash")
        well.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "unix", "hash")
        frozen.freeze()
        publish(publisher)
        assert well.ask("account", "t", MANY) == (MANY, 0, large())
        wait_until(lambda: ring(publisher)["used"] == 0)
        frozen.thaw()
        assert frozen.ask("account", "t", MANY) == (MANY, 0, large())
        wait_until(lambda: ring(publisher)["used"] == 0)


@on_one_host
@pytest.mark.parametrize("frozen", [False, True])
def test_a_killed_reader_leaves_no_block_and_everything_to_the_next_one(
    workers: Workers, frozen: bool
) -> None:
    first, second = workers.start(), workers.start()
    with pair() as (publisher, _):
        first.ask("subscribe", "t", publisher.rep_endpoint, "t", NAMED, "unix")
        if frozen:
            first.freeze()
        publish(publisher)
        if not frozen:
            first.ask("pending", "t", MANY)
        first.kill()
        wait_until(lambda: ring(publisher)["used"] == 0)
        assert waiting(publisher) == MANY
        second.ask("subscribe", "t", publisher.rep_endpoint, "t", NAMED, "unix", "hash")
        assert second.ask("account", "t", MANY) == (MANY, 0, large())


@pytest.mark.parametrize("after", OUTSIDE)
@pytest.mark.parametrize("before", OUTSIDE)
def test_whoever_takes_a_name_over_gets_what_the_reader_before_was_not_done_with(
    workers: Workers, before: str, after: str
) -> None:
    first, second = workers.start(), workers.start()
    with pair() as (publisher, _):
        first.ask("subscribe", "t", publisher.rep_endpoint, "t", NAMED, before)
        publish(publisher)
        first.ask("pending", "t", MANY)
        second.ask("subscribe", "t", publisher.rep_endpoint, "t", NAMED, after, "hash")
        assert second.ask("account", "t", MANY) == (MANY, 0, large())
        [reason] = first.ask("wait_for", "t", "lost")
        assert "is read by another process" in reason
        wait_until(lambda: ring(publisher)["used"] == 0)
