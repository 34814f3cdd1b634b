"""Publishing with links: one order on both planes, waits that end, and whom `ack_wait` waits for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from pzc import Agent, AgentClosed, CallTimeout, PolicyRefused, Protocol

from tests.agents.inside import take_shared_memory
from tests.agents.links_reader import READERS, LocalReader, PollReader, Reader, UnixReader, wish
from tests.contract.rigs.peers import TIMEOUT, Inbox, run_threads

THREADS = 8


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent(name="publisher") as publisher:
        yield publisher


def started(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("kind", READERS)
def test_many_threads_publish_in_one_order(agent: Agent, kind: type[Reader]) -> None:
    each = 100
    agent.advertise("t", buffers=THREADS * each)
    with kind(agent, wish("t", bound=THREADS * each)) as reader:

        def publish(who: int) -> None:
            for count in range(each):
                agent.publish("t", (who, count))

        run_threads(*(lambda who=who: publish(who) for who in range(THREADS)))
        found = reader.take(THREADS * each)
    assert [got.number for got in found] == list(range(1, THREADS * each + 1))
    for who in range(THREADS):
        assert [got.content[1] for got in found if got.content[0] == who] == list(range(each))


def test_both_planes_tell_the_same_numbers(agent: Agent) -> None:
    inbox = Inbox()
    agent.advertise("t", buffers=80)
    with Agent() as other, UnixReader(agent, wish("t", bound=80)) as reader:
        other.subscribe(agent.rep_endpoint, "t", inbox)
        run_threads(*(lambda who=who: [agent.publish("t", (who, n)) for n in range(20)] for who in range(4)))
        linked = {got.number: got.content for got in reader.take(80)}
        assert {n.sequence: n.content for n in inbox.take(80)} == linked


def test_many_threads_wait_for_one_window(agent: Agent) -> None:
    with LocalReader(agent, wish("t", bound=2)) as reader:
        total = THREADS * 20

        def read() -> None:
            for number in range(1, total + 1):
                reader.take(1)
                reader.done(number)

        run_threads(read, *([lambda: [agent.publish("t", n) for n in range(20)]] * THREADS))


def test_a_publication_that_waits_ends_when_the_agent_stops() -> None:
    agent = Agent()
    with LocalReader(agent, wish("t", bound=1)) as reader:
        agent.publish("t", 0)
        errors: list[BaseException] = []

        def publish() -> None:
            try:
                agent.publish("t", 1)
            except AgentClosed as exc:
                errors.append(exc)

        thread = started(publish)
        agent.stop()
        thread.join(TIMEOUT)
        assert len(errors) == 1
        assert reader.reasons == ["the publisher was stopped"]


def test_the_io_thread_does_not_wait_for_a_reader(agent: Agent) -> None:
    with LocalReader(agent, wish("t", bound=1)):
        agent.publish("t", 0)
        with pytest.raises(CallTimeout):
            agent.loop.run(lambda: agent.publish("t", 1))


def test_ack_wait_returns_when_every_reader_is_done(agent: Agent) -> None:
    with LocalReader(agent, wish("t")) as first, UnixReader(agent, wish("t")) as second:

        def read(reader: Reader) -> None:
            for number in range(1, 11):
                reader.take(1)
                reader.done(number)

        def publish() -> None:
            for number in range(10):
                agent.publish("t", number, ack_wait=TIMEOUT)

        run_threads(lambda: read(first), lambda: read(second), publish)
    assert agent.counters["ack_waits_missed"] == 0


def test_a_reader_that_missed_is_not_waited_for_until_it_acknowledges(agent: Agent) -> None:
    with LocalReader(agent, wish("t")) as reader:
        agent.publish("t", 0, ack_wait=0.01)
        assert agent.counters["ack_waits_missed"] == 1
        agent.publish("t", 1, ack_wait=TIMEOUT * 10)  # returns at once, or the test does not end
        assert agent.counters["ack_waits_missed"] == 1
        reader.take(2)
        reader.done(1)
        agent.publish("t", 2, ack_wait=0.01)
        assert agent.counters["ack_waits_missed"] == 2


def test_two_slow_readers_cost_one_wait(agent: Agent) -> None:
    with LocalReader(agent, wish("t")), LocalReader(agent, wish("t")):
        agent.publish("t", 0, ack_wait=0.01)
        assert agent.counters["ack_waits_missed"] == 2


def test_ack_wait_ends_with_its_reader(agent: Agent) -> None:
    with UnixReader(agent, wish("t")) as reader:
        run_threads(lambda: agent.publish("t", 0, ack_wait=TIMEOUT * 10), reader.unlink)
        assert agent.counters["ack_waits_missed"] == 0


def test_ack_wait_does_not_wait_for_what_was_dropped(agent: Agent) -> None:
    with PollReader(agent, wish("t", "latest", 1)):
        thread = started(lambda: agent.publish("t", 0, ack_wait=TIMEOUT * 10))
        while agent.counters["published"] < 1:
            thread.join(0.001)
        agent.publish("t", 1)
        thread.join(TIMEOUT)
        assert not thread.is_alive()


def test_a_topic_has_its_own_ack_wait(agent: Agent) -> None:
    agent.advertise("t", ack_wait=0.01)
    with LocalReader(agent, wish("t")):
        agent.publish("t", 0)
        assert agent.counters["ack_waits_missed"] == 1


def test_a_topic_refuses_the_policies_that_it_does_not_offer(agent: Agent) -> None:
    agent.advertise("t", policies=["latest"])
    with pytest.raises(PolicyRefused, match="only latest"):
        UnixReader(agent, wish("t"))
    UnixReader(agent, wish("t", "latest", 1)).close()


def test_a_mailbox_is_refused(agent: Agent) -> None:
    with pytest.raises(PolicyRefused, match="mailbox"):
        UnixReader(agent, wish("t", "mailbox", 10))


@pytest.mark.parametrize(
    ("scope", "refused"), [("process", [UnixReader, PollReader]), ("host", [PollReader]), ("all", [])]
)
def test_a_topic_stays_in_its_scope(agent: Agent, scope: str, refused: list[type[Reader]]) -> None:
    agent.advertise("t", scope=scope)
    for kind in READERS:
        if kind in refused:
            with pytest.raises(PolicyRefused, match=scope):
                kind(agent, wish("t"))
        else:
            kind(agent, wish("t")).close()


def test_readers_by_link_are_waited_for_like_all_others(agent: Agent) -> None:
    assert not agent.wait_for_subscribers("t", 1, 0)
    with Agent() as other, UnixReader(agent, wish("t")):
        assert agent.wait_for_subscribers("t", 1, TIMEOUT)
        assert not agent.wait_for_subscribers("t", 2, 0)
        other.subscribe(agent.rep_endpoint, "t")
        assert agent.wait_for_subscribers("t", 2, TIMEOUT)


def test_refused_memory_costs_nothing_but_a_copy(agent: Agent) -> None:
    take_shared_memory(agent)
    with UnixReader(agent, wish("t")) as reader:
        agent.publish("t", np.arange(50_000))
        (got,) = reader.take(1)
        assert (got.content == np.arange(50_000)).all()
    assert agent.counters["shm_refused"] == 1


def test_a_content_that_cannot_be_expressed_takes_no_place(agent: Agent) -> None:
    with UnixReader(agent, wish("t", bound=1, timeout=0)) as reader:
        for _ in range(3):
            with pytest.raises(TypeError):
                agent.publish("t", [np.zeros(100_000), threading.Lock()])
        assert agent.publish("t", 0) == 1
        assert reader.numbers(1) == [1]
    assert agent.statistics()["links"]["ring"]["used"] == 0


def test_an_object_of_the_process_arrives_as_itself(agent: Agent) -> None:
    content = [threading.Lock()]
    with LocalReader(agent, wish("t")) as reader:
        agent.publish("t", content)
        assert reader.take(1)[0].content is content


def test_a_signed_link_carries_contents_that_a_json_agent_can_read() -> None:
    with (
        Agent(protocol=Protocol("a long secret of key", "json")) as agent,
        UnixReader(agent, wish("t"), protocol=Protocol("a long secret of key", "json")) as reader,
    ):
        agent.publish("t", {"a": "x" * 100_000})
        assert reader.take(1)[0].content == {"a": "x" * 100_000}


def test_sealed_contents_do_not_lie_in_shared_memory() -> None:
    def protocol() -> Protocol:
        return Protocol("a long secret of key", seal=True)

    with Agent(protocol=protocol()) as agent, UnixReader(agent, wish("t"), protocol=protocol()) as reader:
        agent.publish("t", np.arange(50_000))
        assert (reader.take(1)[0].content == np.arange(50_000)).all()
        assert reader.lent == []


def test_a_forked_child_has_no_links(agent: Agent) -> None:
    with LocalReader(agent, wish("t", bound=1)) as reader:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                agent.publish("t", 0)
            except AgentClosed:
                from pzc.agents.notifications.links import local

                code = 0 if local.find(agent.agent_id, agent.protocol.fingerprint) is None else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        agent.publish("t", 0)
        assert reader.numbers(1) == [1]
