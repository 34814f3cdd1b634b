"""Loans: arrays that are filled where their readers see them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from pzc import Agent, Protocol

from tests.agents.inside import take_shared_memory
from tests.agents.links_reader import READERS, LocalReader, Reader, UnixReader, wish

SHAPE = (100, 1000)


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent(name="publisher") as publisher:
        yield publisher


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("shape", [(), 0, 3, SHAPE])
def test_a_loan_is_published_at_its_end(
    agent: Agent, kind: type[Reader], shape: int | tuple[int, ...]
) -> None:
    with kind(agent, wish("t")) as reader:
        with agent.loan("t", shape, "f4", key="k") as array:
            array[...] = 7
        (got,) = reader.take(1)
        assert got.content.dtype == np.float32
        assert np.array_equal(got.content, np.full(shape, 7, "f4"))


def test_a_loan_is_written_where_its_reader_sees_it(agent: Agent) -> None:
    with UnixReader(agent, wish("t")) as reader:
        with agent.loan("t", SHAPE, np.uint8) as array:
            array[:] = 1
        assert reader.take(1)[0].content.sum() == array.size
        assert reader.lent == [1]
        array.flags.writeable = True
        array[0, 0] = 99  # what is forbidden shows that both have one memory
        item = reader.mapped.view(1, array.nbytes, lambda: None)
        assert 99 in bytes(item)


def test_a_loan_that_failed_publishes_nothing_and_gives_its_block_back(agent: Agent) -> None:
    with UnixReader(agent, wish("t")) as reader:
        with pytest.raises(ZeroDivisionError), agent.loan("t", SHAPE, int) as array:
            array[:] = 1 // 0
        del array
        assert agent.statistics()["links"]["ring"]["used"] == 0
        assert agent.publish("t", "next") == 1
        assert reader.numbers(1) == [1]


def test_an_array_that_is_kept_stays_as_it_was(agent: Agent) -> None:
    with UnixReader(agent, wish("t")) as reader:
        with agent.loan("t", SHAPE, np.uint8) as kept:
            kept[:] = 42
        for number in range(40):
            with agent.loan("t", SHAPE, np.uint8) as array:
                array[:] = number
            reader.take(1)
            reader.done(reader.received)
        assert (kept == 42).all()


def test_a_loan_waits_for_a_place_like_every_publication(agent: Agent) -> None:
    with LocalReader(agent, wish("t", bound=1, timeout=0)) as reader:
        agent.publish("t", 0)
        with pytest.raises(TimeoutError), agent.loan("t", SHAPE, int) as array:
            array[:] = 1
        reader.done(1)
        with agent.loan("t", SHAPE, int) as array:
            array[:] = 2
        assert reader.numbers(2) == [1, 2]


def test_a_publisher_that_speaks_msgpack_lends_as_well() -> None:
    with (
        Agent(protocol=Protocol(serializer="msgpack")) as agent,
        UnixReader(agent, wish("t"), protocol=Protocol(serializer="msgpack")) as reader,
    ):
        with agent.loan("t", SHAPE, "i4") as array:
            array[:] = 3
        assert (reader.take(1)[0].content == 3).all()


def test_no_memory_for_a_loan_costs_nothing_but_a_copy(agent: Agent) -> None:
    take_shared_memory(agent)
    with UnixReader(agent, wish("t")) as reader:
        with agent.loan("t", SHAPE, int) as array:
            array[:] = 3
        assert (reader.take(1)[0].content == 3).all()
    assert agent.counters["shm_refused"] == 1
