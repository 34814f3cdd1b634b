from __future__ import annotations

import gc
import mmap
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pzc.protocol import serializers
from pzc.shm import machine
from pzc.shm.blocks import Block
from pzc.shm.ring import Ring
from pzc.shm.views import MAX_MAPPED, Mapped

pytestmark = pytest.mark.skipif(not machine.MEMORY, reason="blocks are made only on Linux")

SIZE = 1 << 16


def nothing() -> None:
    return None


@pytest.fixture
def mapped() -> Iterator[Mapped]:
    made = Mapped()
    yield made
    made.close()


@pytest.fixture
def block(mapped: Mapped) -> Iterator[Block]:
    """Somebody's block, which the reader has as block 1."""
    made = Block.create(SIZE)
    made.buffer[:] = b"x" * SIZE
    mapped.add(1, os.dup(made.fd))
    yield made
    made.close()


def test_what_the_publisher_wrote_is_what_the_reader_sees(mapped: Mapped, block: Block) -> None:
    view = mapped.view(1, 5, nothing)
    assert bytes(view) == b"xxxxx"
    block.buffer[:5] = b"hello"
    assert bytes(mapped.view(1, 5, nothing)) == b"hello"


def test_nobody_can_write_to_a_view(mapped: Mapped, block: Block) -> None:
    view = mapped.view(1, SIZE, nothing)
    assert view.readonly
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        np.frombuffer(view, np.uint8).flags.writeable = True


def test_nobody_can_map_the_block_of_another_to_write_to_it(block: Block) -> None:
    with pytest.raises(PermissionError):
        mmap.mmap(block.fd, SIZE)


DERIVED: dict[str, Callable[[memoryview], Any]] = {
    "slice of a slice": lambda view: view[8:][8:64],
    "array": lambda view: np.frombuffer(view, np.uint16),
    "slice of an array": lambda view: np.frombuffer(view, np.uint8)[10:20][::2],
    "array of another shape": lambda view: np.frombuffer(view, np.uint8).reshape(2, -1).T,
    "view of an array": lambda view: np.frombuffer(view, np.uint8)[4:].data.cast("B"),
    "exporter": lambda view: view.obj,
    "slice of the exporter": lambda view: np.asarray(view.obj)[3:],
    "buffer of a pickle": lambda view: pickle.PickleBuffer(view),
    "value of a pickle": lambda view: pickle.loads(
        pickle.dumps(np.zeros(4), 5, buffer_callback=[].append), buffers=[view[:32]]
    ),
}


@pytest.mark.parametrize("derived", DERIVED)
def test_a_lease_lasts_as_long_as_anything_made_of_the_view(
    mapped: Mapped, block: Block, derived: str
) -> None:
    told: list[int] = []
    view: memoryview | None = mapped.view(1, SIZE, lambda: told.append(1))
    thing = DERIVED[derived](view)
    view = None
    gc.collect()
    assert told == []
    del thing
    gc.collect()
    assert told == [1]


def test_a_decoded_content_holds_the_lease_by_its_arrays(mapped: Mapped, block: Block) -> None:
    told: list[int] = []
    frame = serializers.encode("buffers", {"image": np.full(5000, 7), "name": "one"})
    block.buffer[: len(frame)] = frame
    view: memoryview | None = mapped.view(1, len(frame), lambda: told.append(1))
    content = serializers.decode("buffers", view, trusted=True)
    part, view = content["image"][10:12], None
    del content
    gc.collect()
    assert (told, part.tolist()) == ([], [7, 7])
    del part
    gc.collect()
    assert told == [1]


def test_each_view_of_a_block_ends_for_itself(mapped: Mapped, block: Block) -> None:
    told: list[int] = []
    views = [mapped.view(1, SIZE, lambda n=n: told.append(n)) for n in range(3)]
    del views[1]
    assert told == [1]
    views.clear()
    assert sorted(told) == [0, 1, 2]


def test_a_lease_may_end_in_another_thread(mapped: Mapped, block: Block) -> None:
    told: list[int] = []
    views = [mapped.view(1, SIZE, lambda: told.append(threading.get_ident()))]
    thread = threading.Thread(target=views.clear)
    thread.start()
    ident = thread.ident
    thread.join()
    assert told == [ident]


def test_a_view_outlives_its_block_and_then_the_mapping_goes(mapped: Mapped, block: Block) -> None:
    view = mapped.view(1, 4, nothing)
    inode = os.fstat(block.fd).st_ino
    mapped.drop(1)
    block.close()
    assert bytes(view) == b"xxxx"
    assert is_mapped(inode)
    del view
    gc.collect()
    assert not is_mapped(inode)


def test_a_view_outlives_the_closing_of_all(mapped: Mapped, block: Block) -> None:
    view = mapped.view(1, 4, nothing)
    mapped.close()
    assert bytes(view) == b"xxxx"
    with pytest.raises(ValueError, match="not mapped"):
        mapped.view(1, 4, nothing)
    with pytest.raises(ValueError, match="came twice"):
        mapped.add(2, os.dup(block.fd))


def test_a_dropped_block_may_be_dropped_again(mapped: Mapped, block: Block) -> None:
    mapped.drop(1)
    mapped.drop(1)
    assert len(mapped) == 0
    with pytest.raises(ValueError, match="not mapped"):
        mapped.view(1, 4, nothing)


@pytest.mark.parametrize("size", [-1, 0, SIZE + 1, 1 << 40])
def test_more_than_a_block_has_is_not_seen(mapped: Mapped, block: Block, size: int) -> None:
    with pytest.raises(ValueError, match="are not in block 1"):
        mapped.view(1, size, nothing)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def is_mapped(inode: int) -> bool:
    with open("/proc/self/maps", encoding="utf-8") as lines:
        return any(line.split()[4] == str(inode) for line in lines)


def unsealed() -> int:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.posix_fallocate(fd, 0, SIZE)
    return fd


def pipe() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


@pytest.mark.parametrize("made", [unsealed, pipe])
def test_a_descriptor_that_is_of_no_block_is_closed_and_refused(
    mapped: Mapped, made: Callable[[], int]
) -> None:
    before = descriptors()
    with pytest.raises(ValueError, match="could shrink"):
        mapped.add(1, made())
    assert descriptors() == before
    assert len(mapped) == 0


def test_a_block_that_comes_twice_is_closed_and_refused(mapped: Mapped, block: Block) -> None:
    before = descriptors()
    with pytest.raises(ValueError, match="came twice"):
        mapped.add(1, os.dup(block.fd))
    assert descriptors() == before


def test_only_so_many_blocks_are_mapped(block: Block) -> None:
    mapped, before = Mapped(3), descriptors()
    for number in range(3):
        mapped.add(number, os.dup(block.fd))
    with pytest.raises(ValueError, match="over 3 are mapped"):
        mapped.add(3, os.dup(block.fd))
    mapped.drop(0)
    mapped.add(3, os.dup(block.fd))
    mapped.close()
    assert descriptors() == before
    assert MAX_MAPPED < 1024  # the usual limit of descriptors


READER = """
import os, socket, sys
import numpy as np
from pzc.shm.views import Mapped

place = socket.socket(fileno=int(sys.argv[1]))
mapped, held = Mapped(), []
while True:
    data, fds, _, _ = socket.recv_fds(place, 100, 1)
    if not data:
        break
    block, size = map(int, data.split())
    if fds:
        mapped.add(block, fds[0])
    held.append(np.frombuffer(mapped.view(block, size, int), np.uint8))
    place.send(b" ".join(b"%d" % array.sum() for array in held))
"""


class Reader:
    """Another process, which keeps every view and tells the sums of all of them."""

    def __init__(self) -> None:
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            command = [sys.executable, "-c", READER, str(other.fileno())]
            self.process = subprocess.Popen(command, pass_fds=[other.fileno()])
        self.socket.settimeout(30)

    def show(self, block: int, size: int, fd: int = -1) -> list[int]:
        socket.send_fds(self.socket, [b"%d %d" % (block, size)], [fd] if fd >= 0 else [])
        return [int(value) for value in self.socket.recv(1000).split()]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.socket.close()


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.kill()


def test_views_of_another_process_stay_as_they_are_over_a_hundred_messages(reader: Reader) -> None:
    ring, expected = Ring(4), []
    for number in range(100):
        slot = ring.allocate(SIZE)
        if slot is None:  # the reader holds all: now it is taken for dead
            assert len(ring.gone("reader")) == 4
            slot = ring.allocate(SIZE)
        assert slot is not None
        slot.buffer[:] = bytes([number]) * SIZE
        ring.publish(slot, ["reader"])
        new = not ring.knows("reader", slot.block)
        ring.introduced("reader", slot.block)
        expected.append(number * SIZE)
        assert reader.show(slot.block, SIZE, slot.fd if new else -1) == expected
    ring.close()


def shared_memory() -> int:
    """KiB of shared memory of the machine."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Shmem:"))


def test_the_memory_of_a_reader_that_is_killed_is_given_back(reader: Reader) -> None:
    size, ring = 256 << 20, Ring(1)
    slot = ring.allocate(size)
    assert slot is not None
    ring.publish(slot, ["reader"])
    reader.show(slot.block, size, slot.fd)
    ring.gone("reader")
    assert ring.statistics()["bytes"] == 0
    held = shared_memory()
    reader.kill()
    assert held - shared_memory() > size // 1024 // 2
    ring.close()
