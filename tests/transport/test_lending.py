"""Who may use a block of a connection when: its two ends, and the notes between them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from pzc.protocol.errors import RemoteProtocolError
from pzc.shm import machine
from pzc.shm.blocks import Block
from pzc.shm.borrowed import COPIES, SHARED_BLOCKS, Borrowed
from pzc.shm.private import Private
from pzc.transport.descriptors import Descriptors
from pzc.transport.lending import LATELY, Lending

from tests.effort import many

pytestmark = pytest.mark.skipif(not machine.MEMORY, reason="blocks are made only on Linux")

SIZE = 100_000


class Connection:
    """A writer's and a reader's end, and the blocks that the reader knows."""

    def __init__(self) -> None:
        self.writer = Lending("reader", blocks=True)
        self.reader = Lending("writer", blocks=False)
        self.known: set[int] = set()

    def send(self, content: bytes | memoryview) -> memoryview:
        """The reader's view."""
        view = self.send_if_possible(content)
        assert view is not None
        return view

    def send_if_possible(self, content: bytes | memoryview) -> memoryview | None:
        """The reader's view, or None when there is no block."""
        placed = self.writer.place(content)
        self.tell_dropped()
        if placed is None:
            return None
        new = Descriptors()
        if placed[1] >= 0:
            new.append(os.dup(placed[1]))
        assert (placed[0] in self.known) is not bool(new)
        self.known.add(placed[0])
        return self.reader.content_of(placed[0], len(content), new or None)

    def tell_dropped(self) -> None:
        notes = tuple(self.writer.take_notes())
        self.known -= {-note for note in notes}
        self.reader.heed(notes)

    def give_back(self) -> None:
        self.writer.heed(tuple(self.reader.take_notes()))
        self.tell_dropped()

    def close(self) -> None:
        self.writer.close()
        self.reader.close()


@pytest.fixture
def connection() -> Iterator[Connection]:
    made = Connection()
    yield made
    made.close()


def test_the_beginning_of_what_was_allocated_is_not_copied_either(connection: Connection) -> None:
    view = connection.writer.allocate(SIZE)
    assert view is not None
    received = connection.send(view[: SIZE - 7].toreadonly())
    assert received.nbytes == SIZE - 7
    assert len(connection.known) == 1


def test_what_does_not_begin_where_its_block_does_is_copied(connection: Connection) -> None:
    view = connection.writer.allocate(SIZE)
    assert view is not None
    view[1:5] = b"here"
    assert bytes(connection.send(view[1:])[:4]) == b"here"
    assert connection.known == {2}


def test_a_content_that_is_sent_again_before_it_was_given_back_is_copied(connection: Connection) -> None:
    view = connection.writer.allocate(SIZE)
    assert view is not None
    view[:4] = b"here"
    one, two = connection.send(view), connection.send(view)
    assert bytes(one[:4]) == bytes(two[:4]) == b"here"
    assert len(connection.known) == 2


def test_a_block_is_used_again_only_when_it_was_given_back(connection: Connection) -> None:
    one = connection.send(b"1" * SIZE)
    two = connection.send(b"2" * SIZE)
    assert (one[0], two[0]) == (ord("1"), ord("2"))
    del one
    connection.give_back()
    three = connection.send(b"3" * SIZE)
    assert (two[0], three[0]) == (ord("2"), ord("3"))
    assert len(connection.known) == 2


def test_a_block_is_not_used_again_while_its_writer_holds_a_view(connection: Connection) -> None:
    view = connection.writer.allocate(SIZE)
    assert view is not None
    view[:4] = b"mine"
    part = view[:4]
    connection.send(view)
    del view
    connection.give_back()
    connection.send(b"x" * SIZE)
    assert bytes(part) == b"mine"
    assert len(connection.known) == 2


def test_what_was_allocated_and_never_sent_goes_back(connection: Connection) -> None:
    for _ in range(3 * SHARED_BLOCKS):
        assert connection.writer.allocate(SIZE) is not None


def test_over_eight_blocks_are_not_had(connection: Connection) -> None:
    held = [connection.send(b"x" * SIZE) for _ in range(SHARED_BLOCKS)]
    assert connection.send_if_possible(b"x" * SIZE) is None
    assert connection.writer.allocate(SIZE) is None
    held.pop()
    connection.give_back()
    assert connection.send(b"y" * SIZE)[0] == ord("y")


def test_a_block_that_is_over_four_times_too_large_is_not_used(connection: Connection) -> None:
    connection.send(b"x" * 5 * SIZE)
    connection.give_back()
    connection.send(b"y" * SIZE)
    assert len(connection.known) == 2
    connection.give_back()
    connection.send(b"z" * 2 * SIZE)
    assert len(connection.known) == 2


def test_a_block_that_was_not_used_lately_is_let_go_here_and_there(connection: Connection) -> None:
    held = [connection.send(b"x" * SIZE) for _ in range(3)]
    held.clear()
    for _ in range(LATELY + 2):
        connection.give_back()
        connection.send(b"y" * SIZE)
    assert len(connection.known) == 1


def test_a_block_that_was_not_given_back_is_not_mapped_again(connection: Connection) -> None:
    held = connection.send(b"x" * SIZE)
    with pytest.raises(RemoteProtocolError, match="before it was given back"):
        connection.reader.content_of(1, SIZE, None)
    with pytest.raises(RemoteProtocolError, match="in use"):
        connection.reader.heed((-1,))
    assert held[0] == ord("x")


def test_an_unknown_block_is_neither_mapped_nor_let_go(connection: Connection) -> None:
    with pytest.raises(RemoteProtocolError, match="unknown"):
        connection.reader.content_of(5, SIZE, None)
    with pytest.raises(RemoteProtocolError, match="unknown"):
        connection.reader.heed((-5,))


@pytest.mark.parametrize("block", [1, 2, 99])
def test_what_was_not_lent_cannot_be_given_back(connection: Connection, block: int) -> None:
    connection.send(b"x" * SIZE)
    connection.give_back()
    with pytest.raises(RemoteProtocolError, match="was not lent"):
        connection.writer.heed((block,))


def test_descriptors_that_are_kept_have_a_bound() -> None:
    block, reader = Block.create(SIZE), Borrowed(deque())
    for block_id in range(SHARED_BLOCKS):
        reader.add(block_id, os.dup(block.fd))
    for block_id in (0, SHARED_BLOCKS):
        with pytest.raises(ValueError, match="came twice, or over 8"):
            reader.add(block_id, block.fd)
    reader.close()
    block.close()


def test_a_closed_end_gives_nothing_and_what_was_given_stays(connection: Connection) -> None:
    mine, theirs = connection.writer.allocate(SIZE), connection.send(b"x" * SIZE)
    assert mine is not None
    connection.close()
    connection.close()
    mine[:4] = b"mine"
    assert theirs[-1] == ord("x")
    assert connection.writer.allocate(SIZE) is None
    assert connection.writer.place(b"x" * SIZE) is None


def test_a_reader_that_writes_is_given_copies_for_a_while(connection: Connection) -> None:
    np.frombuffer(connection.send(b"x" * SIZE), np.uint8)[:] = 9
    connection.give_back()
    held = [connection.send(b"y" * SIZE) for _ in range(COPIES) if connection.give_back() is None]
    assert len(connection.known) == 1
    assert {bytes(each) for each in held} == {b"y" * SIZE}
    connection.give_back()
    views = [connection.send(b"z" * SIZE) for _ in range(2)]
    assert len(connection.known) == 2
    assert {bytes(each) for each in views} == {b"z" * SIZE}


def test_a_reader_whose_memory_is_locked_sees_each_content(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Private, "renew", lambda _: False)
    for letter in b"abc":
        np.frombuffer(view := connection.send(bytes([letter]) * SIZE), np.uint8)[1:] = 9
        assert view[0] == letter
        del view
        connection.give_back()


class Holders(RuleBasedStateMachine):
    """Whatever is sent, held and dropped in whatever order: no view changes under its holder."""

    mine = Bundle("mine")
    theirs = Bundle("theirs")

    def __init__(self) -> None:
        super().__init__()
        self.connection = Connection()
        self.count = 0

    def fill(self, view: memoryview) -> np.ndarray:
        self.count += 1
        array = np.frombuffer(view, np.uint8)
        array[:] = self.count % 251
        return array

    @rule(target=mine, size=st.sampled_from([70_000, 200_000, 900_000]))
    def allocate(self, size: int):
        view = self.connection.writer.allocate(size)
        if view is None:
            return multiple()
        self.fill(view)
        return [view, self.count % 251]

    @rule(target=theirs, held=mine)
    def send_allocated(self, held):
        return self.receive(held[0], held[1])

    @rule(target=theirs, size=st.sampled_from([70_000, 200_000, 900_000]))
    def send_other(self, size: int):
        self.count += 1
        return self.receive(bytes([self.count % 251]) * size, self.count % 251)

    def receive(self, content, value):
        view = self.connection.send_if_possible(content)
        return multiple() if view is None else [view, value]

    @rule(held=theirs)
    def reader_writes(self, held):
        held[1] = self.fill(held[0])[0]

    @rule(held=consumes(mine))
    def writer_forgets(self, held):
        held.clear()

    @rule(held=consumes(theirs))
    def reader_forgets(self, held):
        held.clear()

    @rule()
    def give_back(self):
        self.connection.give_back()

    @rule(held=mine)
    def mine_is_as_it_was(self, held):
        assert set(bytes(held[0])) == {held[1]}

    @rule(held=theirs)
    def theirs_is_as_it_was(self, held):
        assert set(bytes(held[0])) == {held[1]}

    @invariant()
    def bounds_hold(self):
        assert len(self.connection.known) <= SHARED_BLOCKS

    def teardown(self):
        self.connection.close()


TestHolders = Holders.TestCase
TestHolders.settings = settings(max_examples=many(40), stateful_step_count=40, deadline=None)
