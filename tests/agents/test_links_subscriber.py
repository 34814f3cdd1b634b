"""The publisher's end of links: windows, policies, acknowledgements, ways; each reader speaks the wire itself."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pzc import Agent, CallTimeout, PeerLost
from pzc.protocol.link_messages import Closed, Loss, Notify

from tests.agents.links_reader import READERS, LocalReader, PollReader, Reader, UnixReader, wish
from tests.contract.rigs.peers import TIMEOUT, run_threads

LARGE = 200_000


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent(name="publisher") as publisher:
        yield publisher


def published(agent: Agent, topic: str = "t") -> int:
    """How many publications return before one has to wait."""
    count = 0
    while True:
        try:
            agent.publish(topic, count)
        except CallTimeout:
            return count
        count += 1


def link_of(agent: Agent) -> dict[str, Any]:
    (found,) = agent.statistics()["links"]["links"]
    return found


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("slots", [1, 4, 32])
def test_as_many_publications_return_as_the_window_has_slots(
    agent: Agent, kind: type[Reader], slots: int
) -> None:
    asked = wish("t", bound=slots, timeout=0)
    with kind(agent, asked) as reader:
        assert published(agent) == slots
        assert reader.numbers(slots) == list(range(1, slots + 1))
        some = (slots + 1) // 2
        reader.done(some)
        reader.ask(asked)  # its answer comes when the acknowledgement was heeded
        assert published(agent) == some


@pytest.mark.parametrize("kind", READERS)
def test_messages_may_be_done_in_any_order(agent: Agent, kind: type[Reader]) -> None:
    asked = wish("t", bound=4, timeout=0)
    with kind(agent, asked) as reader:
        assert published(agent) == 4
        reader.take(4)
        reader.done(0, 2, 4)
        reader.ask(asked)
        assert published(agent) == 2


def test_the_buffers_of_a_topic_bound_every_window(agent: Agent) -> None:
    agent.advertise("t", buffers=3)
    with LocalReader(agent, wish("t", bound=32, timeout=0)) as reader:
        assert reader.answer["windows"] == {"t": 3}
        assert published(agent) == 3


def test_a_publication_that_timed_out_took_no_number(agent: Agent) -> None:
    asked = wish("t", bound=1, timeout=0)
    with LocalReader(agent, asked) as reader:
        assert agent.publish("t", 0) == 1
        with pytest.raises(CallTimeout, match="nothing was published"):
            agent.publish("t", 1)
        reader.done(1)
        assert agent.publish("t", 2) == 2
        assert [got.content for got in reader.take(2)] == [0, 2]


def test_a_blocked_publication_goes_on_when_its_reader_goes(agent: Agent) -> None:
    reader = UnixReader(agent, wish("t", bound=1))
    agent.publish("t", 0)
    run_threads(lambda: agent.publish("t", 1), reader.close)


def test_a_blocked_publication_goes_on_when_its_reader_unlinks(agent: Agent) -> None:
    with UnixReader(agent, wish("t", bound=1)) as reader:
        agent.publish("t", 0)
        run_threads(lambda: agent.publish("t", 1), reader.unlink)


def test_nobody_waits_for_a_topic_that_the_reader_left(agent: Agent) -> None:
    with LocalReader(agent, wish("t", bound=1, timeout=0), wish("u")) as reader:
        agent.publish("t", 0)
        reader.ask(wish("u"))
        agent.publish("t", 1)
        agent.publish("u", 2)
        assert [got.content for got in reader.take(2)] == [0, 2]


def test_a_reader_of_everything_gets_topics_that_were_not_known(agent: Agent) -> None:
    agent.publish("before", 0)
    with LocalReader(agent, wish("*", bound=2, timeout=0)) as reader:
        assert reader.answer["lasts"] == {"before": 1}
        assert published(agent, "before") == 2
        assert published(agent, "after") == 2
        assert [(got.topic, got.number) for got in reader.take(4)] == [
            ("before", 2), ("before", 3), ("after", 1), ("after", 2),
        ]  # fmt: skip


def test_the_first_notification_after_the_answer_is_the_next_one(agent: Agent) -> None:
    for number in range(3):
        agent.publish("t", number)
    with UnixReader(agent, wish("t")) as reader:
        assert reader.answer["lasts"] == {"t": 3}
        agent.publish("t", 3)
        assert reader.numbers(1) == [4]


@pytest.mark.parametrize(("policy", "kept"), [("latest", [97, 98, 99]), ("drop", [0, 1, 2])])
def test_what_a_way_cannot_take_is_kept_by_policy(agent: Agent, policy: str, kept: list[int]) -> None:
    with PollReader(agent, wish("t", policy, 3)) as reader:
        for number in range(100):
            agent.publish("t", number)
        assert [got.content for got in reader.take(3)] == kept


@pytest.mark.parametrize("policy", ["latest", "drop"])
def test_received_and_lost_are_what_was_published(agent: Agent, policy: str) -> None:
    with PollReader(agent, wish("t", policy, 3)) as reader:
        received = lost = 0
        for _ in range(5):
            for number in range(20):
                agent.publish("t", number)
            found = reader.take(3)
            received += len(found)
            lost += sum(got.lost for got in found)
            reader.done(reader.received)
        agent.publish("t", None)
        (end,) = reader.take(1)
        assert (end.number, received + 1 + lost + end.lost) == (101, 101)


def test_a_heartbeat_tells_what_was_dropped_at_the_end(agent: Agent) -> None:
    with PollReader(agent, wish("t", "drop", 3)) as reader:
        for number in range(10):
            agent.publish("t", number)
        assert reader.numbers(3) == [1, 2, 3]
        assert reader.loss(7) == Loss(1, "t", 10, 7)


def test_a_second_poll_flushes_the_first(agent: Agent) -> None:
    with PollReader(agent, wish("t")) as reader:
        answers: queue.SimpleQueue[Notify] = queue.SimpleQueue()

        def poll() -> None:
            answers.put(reader.request(reader.report(0, hold=1.0)))

        polls = [threading.Thread(target=poll) for _ in range(2)]
        for each in polls:
            each.start()
        assert answers.get(timeout=TIMEOUT) == Notify(1)
        agent.publish("t", 0)
        assert [row.number for row in answers.get(timeout=TIMEOUT).runs[0].rows] == [1]
        for each in polls:
            each.join(TIMEOUT)


def test_a_large_content_lies_in_a_block_whose_descriptor_comes_once(agent: Agent) -> None:
    with UnixReader(agent, wish("t")) as reader:
        for number in range(5):
            agent.publish("t", np.full(LARGE, number, np.uint8))
            (got,) = reader.take(1)
            assert (got.content == number).all()
            reader.done(got.link_number)
            reader.ask(wish("t"))
        assert len(reader.lent) == len(set(reader.lent)) < 5


def test_a_lossy_reader_holds_two_blocks_at_a_time(agent: Agent) -> None:
    with UnixReader(agent, wish("t", "latest", 1)) as reader:
        for number in range(10):
            agent.publish("t", np.full(LARGE, number, np.uint8))
        assert agent.statistics()["links"]["ring"]["used"] <= 3
        assert [got.content[0] for got in reader.take(2)] == [0, 1]
        reader.done(1)
        (third,) = reader.take(1)
        assert (third.content[0], third.lost) == (9, 7)


def test_a_kept_block_is_given_up_when_it_is_wanted(agent: Agent) -> None:
    with UnixReader(agent, wish("t", "drop", 1000)) as reader:
        for number in range(60):
            agent.publish("t", np.full(LARGE, number, np.uint8))
        assert agent.counters["shm_refused"] == 0
        found = reader.take(1)
        reader.done(1)
        while found[-1].content[0] != 59:
            found += reader.take(1)
            reader.done(reader.received)
        assert len(found) + sum(got.lost for got in found) == 60


def test_a_dead_reader_holds_no_block(agent: Agent) -> None:
    with UnixReader(agent, wish("t")) as reader:
        agent.publish("t", np.zeros(LARGE, np.uint8))
        reader.take(1)
        reader.unlink()
        assert reader.hear(TIMEOUT) == Closed()
        with pytest.raises(PeerLost):
            reader.hear(TIMEOUT)
    ring = agent.statistics()["links"]["ring"]
    assert (ring["used"], ring["retired"]) == (0, 1)


@pytest.mark.parametrize("kind", [UnixReader, PollReader])
def test_what_was_not_received_comes_again_over_another_way(
    agent: Agent, kind: type[UnixReader] | type[PollReader]
) -> None:
    asked, me = wish("t"), Agent()
    with me, UnixReader(agent, asked, me=me.agent_id) as first:
        for number in range(4):
            agent.publish("t", np.full(LARGE, number, np.uint8))
        assert first.numbers(2) == [1, 2]
        first.close()
        for number in (4, 5):
            agent.publish("t", number)
        again = (
            UnixReader(agent, asked, link=first.link, resume=2, me=me.agent_id)
            if kind is UnixReader
            else PollReader(agent, asked, link=first.link, resume=2, me=me)
        )
        with again:
            assert again.numbers(4) == [3, 4, 5, 6]
            again.done(6)
            again.ask(asked)
            assert link_of(agent)["unacknowledged"] == 0


def test_a_link_that_the_publisher_forgot_is_not_resumed(agent: Agent) -> None:
    with pytest.raises(PeerLost, match="ended"):
        UnixReader(agent, wish("t"), resume=7)


SILENT = {"silence": 0.3, "link_look": 0.02}


def test_a_silent_reader_is_suspended_and_told_what_it_lost(
    agent: Agent, timings: Callable[..., None]
) -> None:
    timings(**SILENT)
    asked = wish("t", bound=2)
    asked[1] = ["mine"]
    with UnixReader(agent, asked) as first:
        agent.publish("t", 0, key="mine")
        first.take(1)
        for number in range(5):  # returns when the link is suspended for its silence
            agent.publish("t", number, key="mine")
            agent.publish("t", number, key="of another")
        assert link_of(agent)["state"] == "suspended"
        assert not agent.wait_for_subscribers("t", 1, 0)
        with UnixReader(agent, asked, link=first.link, resume=1, me=first.me) as again:
            assert agent.wait_for_subscribers("t", 1, TIMEOUT)
            agent.publish("t", "back", key="mine")
            assert (again.take(1)[0].content, again.loss(5).at) == ("back", 10)


def test_a_suspended_link_gives_way_to_another_one(agent: Agent, timings: Callable[..., None]) -> None:
    timings(**SILENT, links=2)
    with UnixReader(agent, wish("t", bound=1)) as first:
        agent.publish("t", 0)
        agent.publish("t", 1)
        with UnixReader(agent, wish("t")) as second:
            assert link_of(agent)["link"] == second.link != first.link


def test_a_suspended_link_ends_in_the_end(agent: Agent, timings: Callable[..., None]) -> None:
    timings(**SILENT, link_keep=0.5)
    with UnixReader(agent, wish("t")):
        while agent.statistics()["links"]["links"]:
            threading.Event().wait(0.01)


def test_statistics_tell_of_every_link(agent: Agent) -> None:
    with UnixReader(agent, wish("t", "latest", 2)) as reader:
        agent.publish("t", 0)
        found = link_of(agent)
        assert (found["link"], found["agent"], found["transport"]) == (reader.link, reader.me, "unix")
        assert found["topics"]["t"]["policy"] == "latest"
