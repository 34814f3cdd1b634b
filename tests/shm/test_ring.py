from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from pzc.shm import machine
from pzc.shm.blocks import capacity
from pzc.shm.ring import Ring, Slot

from tests.shm.ringing import BUFFERS, SIZE, allocate, publish, seen

pytestmark = pytest.mark.skipif(not machine.MEMORY, reason="blocks are made only on Linux")


@pytest.fixture
def ring() -> Iterator[Ring]:
    made = Ring(BUFFERS)
    yield made
    made.close()


def test_what_was_written_is_seen_through_the_descriptor(ring: Ring) -> None:
    slot = publish(ring, "a", fill=b"7")
    assert bytes(seen(slot)) == b"7" * SIZE
    assert slot.size == SIZE


def test_a_slot_has_exactly_the_size_that_was_wanted_and_its_block_is_rounded_up(ring: Ring) -> None:
    slot = allocate(ring, 1)
    assert slot.buffer.nbytes == 1
    assert not slot.buffer.readonly
    assert capacity(slot.fd) == 1 << 16
    assert ring.statistics() == {"blocks": 1, "bytes": 1 << 16, "used": 1, "refused": 0, "retired": 0}


@pytest.mark.parametrize("size", [0, -1])
def test_a_slot_of_no_bytes_is_an_error(ring: Ring, size: int) -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        ring.allocate(size)


def test_a_ring_without_buffers_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one buffer"):
        Ring(0)


@pytest.mark.parametrize("buffers", [1, 4, 32])
def test_so_many_slots_as_there_are_buffers_can_be_held(buffers: int) -> None:
    ring = Ring(buffers)
    slots = [publish(ring, "a") for _ in range(buffers)]
    assert ring.allocate(SIZE) is None
    assert ring.full
    ring.end(slots[0].block, "a")
    assert allocate(ring).block == slots[0].block
    ring.close()


def test_a_slot_that_is_written_counts_as_one_that_is_held(ring: Ring) -> None:
    slots = [allocate(ring) for _ in range(BUFFERS)]
    assert ring.allocate(SIZE) is None
    ring.abandon(slots[0])
    assert ring.allocate(SIZE) is not None


def test_there_is_one_more_block_for_each_lossy_reader(ring: Ring) -> None:
    ring.lossy = 2
    for _ in range(BUFFERS + 2):
        publish(ring, "a")
    assert ring.allocate(SIZE) is None


def test_a_block_is_written_again_only_when_its_last_holder_has_ended(ring: Ring) -> None:
    first = publish(ring, "a", "b")
    ring.end(first.block, "a")
    assert publish(ring, "a").block != first.block
    ring.end(first.block, "b")
    assert publish(ring, "a").block == first.block


def test_what_is_published_to_nobody_is_free_at_once(ring: Ring) -> None:
    assert publish(ring).block == publish(ring).block
    assert ring.statistics()["used"] == 0


def test_the_end_of_what_was_not_held_changes_nothing(ring: Ring) -> None:
    slot = publish(ring, "a")
    for block, holder in ((slot.block, "b"), (99, "a")):
        ring.end(block, holder)
    assert allocate(ring).block != slot.block


def test_the_block_that_was_freed_last_is_written_next(ring: Ring) -> None:
    slots = [publish(ring, "a") for _ in range(3)]
    for slot in (slots[0], slots[2], slots[1]):
        ring.end(slot.block, "a")
    again = [publish(ring, "a") for _ in range(3)]
    assert [slot.block for slot in again] == [slots[1].block, slots[2].block, slots[0].block]


def test_a_block_over_four_times_too_large_is_not_used(ring: Ring) -> None:
    large = publish(ring, size=9 * SIZE)
    assert publish(ring).block != large.block
    assert publish(ring, size=3 * SIZE).block == large.block


def test_small_contents_share_blocks_of_the_smallest_size(ring: Ring) -> None:
    assert publish(ring, size=10).block == publish(ring, size=60_000).block


def test_a_free_block_makes_room_for_one_of_another_size() -> None:
    ring = Ring(1)
    small = publish(ring)
    large = publish(ring, size=9 * SIZE)
    assert large.block != small.block
    assert ring.statistics()["blocks"] == 1
    ring.close()


def test_the_bytes_of_all_blocks_have_a_bound_that_a_free_block_lifts() -> None:
    ring = Ring(BUFFERS, max_bytes=1 << 20)
    held = publish(ring, "a", size=900_000)
    assert ring.allocate(900_000) is None
    assert ring.full
    ring.end(held.block, "a")
    assert ring.allocate(500_000) is not None
    ring.close()


def test_a_content_over_that_bound_is_refused_and_not_worth_a_wait() -> None:
    ring = Ring(BUFFERS, max_bytes=1 << 20)
    assert ring.allocate((1 << 20) + 1) is None
    assert (ring.full, ring.refused) == (False, 1)


def test_refused_memory_is_counted_and_lets_go_of_what_is_free(ring: Ring, little_memory: int) -> None:
    publish(ring)
    assert ring.allocate(little_memory + 1) is None
    assert (ring.full, ring.refused) == (False, 1)
    assert ring.statistics() == {"blocks": 0, "bytes": 0, "used": 0, "refused": 1, "retired": 0}
    publish(ring, "a")


def test_refused_descriptors_are_as_refused_memory(ring: Ring) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        slot = ring.allocate(SIZE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert slot is None
    assert (ring.full, ring.refused) == (False, 1)


def test_a_free_block_is_let_go_for_the_sake_of_its_descriptor(ring: Ring) -> None:
    import resource

    publish(ring)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        slot = ring.allocate(9 * SIZE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert slot is not None
    assert (ring.statistics()["blocks"], ring.refused) == (1, 0)


def test_a_reader_is_told_once_of_a_block_whose_descriptor_it_has() -> None:
    ring = Ring(1)
    slot = publish(ring)
    ring.introduced("a", slot.block)
    assert ring.knows("a", slot.block)
    assert not ring.knows("b", slot.block)
    publish(ring, size=9 * SIZE)
    assert ring.take_dropped("a") == [slot.block]
    assert ring.take_dropped("a") == ring.take_dropped("b") == []
    ring.close()


def test_a_block_that_was_let_go_meanwhile_is_told_of_as_well(ring: Ring) -> None:
    slot = publish(ring, "dead")
    ring.gone("dead")
    ring.introduced("a", slot.block)
    assert ring.take_dropped("a") == [slot.block]


def test_a_dead_reader_is_told_nothing_any_longer() -> None:
    ring = Ring(2)
    for slot in (publish(ring), publish(ring, "dead", size=9 * SIZE)):
        ring.introduced("dead", slot.block)
    publish(ring, size=90 * SIZE)  # in place of the first
    ring.gone("dead")
    assert ring.take_dropped("dead") == []
    ring.close()


def test_a_duplicate_of_a_descriptor_is_the_callers(ring: Ring) -> None:
    slot = publish(ring, "a")
    fd = ring.descriptor(slot.block)
    ring.gone("a")
    try:
        assert capacity(fd) >= SIZE
    finally:
        os.close(fd)
    assert ring.descriptor(slot.block) == -1


def test_the_buffer_of_a_slot_is_taken_away_when_it_is_published(ring: Ring) -> None:
    slot = allocate(ring)
    before = slot.buffer
    ring.publish(slot, ["a"])
    with pytest.raises(ValueError, match="released"):
        before[0] = 1
    assert slot.buffer.nbytes == 0


def test_a_slot_is_published_or_abandoned_once(ring: Ring) -> None:
    one, two = publish(ring, "a"), allocate(ring)
    ring.abandon(two)
    ring.abandon(one)
    for slot in (one, two):
        with pytest.raises(ValueError, match="published or abandoned before"):
            ring.publish(slot, ["b"])
    assert ring.statistics()["used"] == 1


@pytest.mark.parametrize("outcome", ["published", "abandoned", "forgotten"])
def test_a_block_is_not_written_again_while_its_former_writer_sees_it(ring: Ring, outcome: str) -> None:
    slot: Slot | None = allocate(ring)
    assert slot is not None
    block, array = slot.block, np.frombuffer(slot.buffer, np.uint16)[5:][::2]
    array[:] = 7
    if outcome == "published":
        ring.publish(slot, ["a"])
        ring.end(block, "a")
    elif outcome == "abandoned":
        ring.abandon(slot)
    slot = None
    assert publish(ring, fill=b"x").block != block
    assert set(array.tolist()) == {7}
    del array
    gc.collect()
    assert block in {publish(ring, "a").block for _ in range(BUFFERS)}


LOOKS: dict[str, Callable[[memoryview], object]] = {
    "slice": lambda buffer: buffer[5:],
    "cast": lambda buffer: buffer.cast("H")[1:],
    "read-only": lambda buffer: buffer.toreadonly(),
    "array": lambda buffer: np.frombuffer(buffer, np.uint8)[3:].reshape(-1),
    "out of band": lambda buffer: pickle.PickleBuffer(buffer),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_anything_that_was_made_of_its_buffer_keeps_a_block(
    ring: Ring, look: Callable[[memoryview], object]
) -> None:
    slot = allocate(ring)
    block, seen = slot.block, [look(slot.buffer)]
    ring.publish(slot, ["a"])
    ring.end(block, "a")
    assert publish(ring).block != block
    seen.clear()
    assert block in {publish(ring, "a").block for _ in range(BUFFERS)}


def test_a_block_that_its_former_writer_sees_gives_its_place_to_another(ring: Ring) -> None:
    kept = []
    for _ in range(3 * BUFFERS):
        slot = allocate(ring)
        kept.append(np.frombuffer(slot.buffer, np.uint8))
        ring.publish(slot, [])
    assert ring.statistics()["blocks"] <= BUFFERS


def test_it_gives_it_sooner_than_a_block_that_nobody_sees() -> None:
    ring = Ring(2)
    seen, unseen = allocate(ring), allocate(ring)
    ring.publish(unseen, [])
    array = np.frombuffer(seen.buffer, np.uint8)
    ring.publish(seen, [])
    publish(ring, "a", size=9 * SIZE)
    assert publish(ring).block == unseen.block
    assert array.size == SIZE
    ring.close()


def test_a_slot_that_was_forgotten_is_free_again(ring: Ring) -> None:
    for _ in range(3 * BUFFERS):
        allocate(ring)
        gc.collect()
    assert ring.statistics()["blocks"] <= 1


def test_a_closed_ring_gives_no_slots_and_has_no_blocks(ring: Ring) -> None:
    slot = allocate(ring)
    ring.close()
    ring.close()
    ring.publish(slot, ["a"])
    ring.end(slot.block, "a")
    assert ring.allocate(SIZE) is None
    assert (ring.full, ring.refused) == (False, 0)
    assert ring.statistics()["blocks"] == 0
