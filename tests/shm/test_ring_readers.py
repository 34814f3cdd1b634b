from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from pzc.shm import machine
from pzc.shm.ring import Ring

from tests.effort import many
from tests.shm.ringing import BUFFERS, SIZE, publish, seen

pytestmark = pytest.mark.skipif(not machine.MEMORY, reason="blocks are made only on Linux")


@pytest.fixture
def ring() -> Iterator[Ring]:
    made = Ring(BUFFERS)
    yield made
    made.close()


def test_what_a_dead_reader_held_is_never_written_again(ring: Ring) -> None:
    held = [publish(ring, "dead", fill=b"1") for _ in range(BUFFERS)]
    views = [seen(slot) for slot in held]
    assert ring.gone("dead") == [slot.block for slot in held]
    assert ring.statistics() == {"blocks": 0, "bytes": 0, "used": 0, "refused": 0, "retired": BUFFERS}
    fresh = [publish(ring, "a", fill=b"2") for _ in range(BUFFERS)]
    assert {slot.block for slot in fresh}.isdisjoint(slot.block for slot in held)
    assert all(bytes(view) == b"1" * SIZE for view in views)


def test_what_a_dead_reader_shared_is_closed_when_the_others_have_ended(ring: Ring) -> None:
    slot = publish(ring, "dead", "alive")
    assert ring.gone("dead") == [slot.block]
    assert ring.statistics()["used"] == 1
    os.fstat(slot.fd)
    ring.end(slot.block, "alive")
    assert ring.statistics()["blocks"] == 0


def test_a_dead_reader_that_held_nothing_retires_nothing(ring: Ring) -> None:
    slot = publish(ring, "dead")
    ring.end(slot.block, "dead")
    assert ring.gone("dead") == []
    assert publish(ring).block == slot.block


def test_threads_that_share_a_ring_never_share_a_slot() -> None:
    ring, mixed = Ring(3), threading.Event()

    def work(number: int) -> None:
        for _ in range(200):
            slot = ring.allocate(70_000 * number)
            if slot is None:
                continue
            slot.buffer[:4] = bytes([number]) * 4
            if bytes(slot.buffer[:4]) != bytes([number]) * 4:
                mixed.set()
            ring.publish(slot, [number])
            ring.end(slot.block, number)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not mixed.is_set()
    assert ring.statistics()["used"] == 0
    ring.close()


KILLED = """
import os
from pzc.shm.ring import Ring
ring = Ring()
slots = [ring.allocate(4 << 20) for _ in range(8)]
print(*(os.fstat(slot.fd).st_ino for slot in slots), flush=True)
input()
"""


def blocks_of_processes() -> set[int]:
    """Inode numbers of the blocks that are open in any process of this user."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(path).startswith("/memfd:pzc"):
                found.add(path.stat().st_ino)
        except OSError:  # ended, or somebody else's
            continue
    return found


def test_a_publisher_that_is_killed_leaves_no_block_behind() -> None:
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        inodes = set(map(int, child.stdout.readline().split()))
        assert len(inodes) == 8
        assert inodes <= blocks_of_processes()
        child.send_signal(signal.SIGKILL)
    assert not inodes & blocks_of_processes()


HOLDERS = ["a", "b", "c"]
SIZES = st.sampled_from([70_000, 200_000, 900_000])


class Readers(RuleBasedStateMachine):
    """Whatever is written and ended, and whoever dies, in whatever order."""

    written = Bundle("written")
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.ring = Ring(3)
        self.held: dict[tuple[int, str], tuple[memoryview, int]] = {}
        self.retired: set[int] = set()
        self.writing: set[int] = set()
        self.count = 0

    @rule(target=written, size=SIZES)
    def allocate(self, size: int):
        slot = self.ring.allocate(size)
        if slot is None:
            assert self.ring.full
            return multiple()
        assert slot.block not in self.writing | self.retired | {block for block, _ in self.held}
        self.writing.add(slot.block)
        self.count = (self.count + 1) % 251
        slot.buffer[:] = bytes([self.count]) * size
        return slot, self.count

    @rule(target=leases, written=consumes(written), holders=st.sets(st.sampled_from(HOLDERS)))
    def publish(self, written, holders):
        slot, value = written
        self.writing.discard(slot.block)
        self.ring.publish(slot, holders)
        made = [(slot.block, holder) for holder in sorted(holders)]
        for lease in made:
            self.held[lease] = seen(slot), value
        return multiple(*made)

    @rule(written=consumes(written))
    def abandon(self, written):
        self.writing.discard(written[0].block)
        self.ring.abandon(written[0])

    @rule(lease=consumes(leases))
    def end(self, lease):
        self.held.pop(lease, None)
        self.ring.end(*lease)

    @rule(holder=st.sampled_from(HOLDERS))
    def die(self, holder):
        lost = {lease for lease in self.held if lease[1] == holder}
        assert set(self.ring.gone(holder)) == {block for block, _ in lost}
        for lease in lost:
            del self.held[lease]
            self.retired.add(lease[0])

    @invariant()
    def what_is_held_is_as_it_was(self):
        for view, value in self.held.values():
            assert (view[0], view[-1]) == (value, value)

    @invariant()
    def the_bound_holds_and_every_lease_has_an_end(self):
        used = self.writing | {block for block, _ in self.held}
        assert self.ring.statistics()["used"] == len(used) <= 3
        assert self.ring.statistics()["blocks"] <= 3

    def teardown(self):
        for lease in list(self.held):
            self.ring.end(*lease)
        self.held.clear()
        assert self.ring.statistics()["used"] == len(self.writing)
        self.ring.close()


TestReaders = Readers.TestCase
TestReaders.settings = settings(max_examples=many(60), stateful_step_count=40, deadline=None)
