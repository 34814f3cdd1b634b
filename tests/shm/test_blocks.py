from __future__ import annotations

import fcntl
import gc
import mmap
import os
from collections.abc import Iterator

import numpy as np
import pytest

from pzc.shm.blocks import Block, address_of, available, map_private

pytestmark = pytest.mark.skipif(not available(), reason="blocks are made only on Linux")

SIZE = 3 * mmap.PAGESIZE


def nothing() -> None:
    pass


@pytest.fixture
def block() -> Iterator[Block]:
    made = Block.create(SIZE)
    yield made
    made.close()


def test_a_block_is_zero_writable_and_wholly_reserved(block: Block) -> None:
    assert bytes(block.buffer) == bytes(SIZE)
    block.buffer[5] = 7
    assert os.pread(block.fd, 1, 5) == b"\7"
    assert os.fstat(block.fd).st_blocks * 512 >= SIZE


def test_the_address_of_a_block_is_that_of_its_buffer(block: Block) -> None:
    assert block.address == address_of(block.buffer) == address_of(block.buffer[:1].toreadonly())
    assert address_of(block.buffer[8:]) == block.address + 8


@pytest.mark.parametrize("size", [0, SIZE - 1, SIZE + 1])
def test_the_size_of_a_block_cannot_be_changed(block: Block, size: int) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(block.fd, size)


def test_the_seals_of_a_block_cannot_be_changed(block: Block) -> None:
    with pytest.raises(PermissionError):
        fcntl.fcntl(block.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def test_whoever_gets_the_descriptor_cannot_write_to_the_block(block: Block) -> None:
    with pytest.raises(PermissionError):
        os.pwrite(block.fd, b"x", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(block.fd, SIZE)


def test_the_descriptor_of_a_block_does_not_pass_to_programs_that_are_started(block: Block) -> None:
    assert not os.get_inheritable(block.fd)


def test_a_block_is_closed_once_and_views_of_it_keep_their_memory(block: Block) -> None:
    view = block.buffer[:4]
    view[:] = b"kept"
    block.close()
    block.close()
    assert bytes(view) == b"kept"
    assert block.fd == -1


def test_memory_that_is_refused_is_an_error_and_leaves_no_descriptor(little_memory: int) -> None:
    for _ in range(3):
        with pytest.raises(OSError, match="large"):
            Block.create(little_memory + 1)


def test_what_the_writer_wrote_is_what_the_reader_sees(block: Block) -> None:
    block.buffer[:5] = b"hello"
    assert bytes(map_private(block.fd, 5, nothing)) == b"hello"


def test_what_a_reader_writes_nobody_else_sees(block: Block) -> None:
    one, two = map_private(block.fd, SIZE, nothing), map_private(block.fd, SIZE, nothing)
    np.frombuffer(one, np.uint8)[:] = 9
    assert bytes(one) == b"\t" * SIZE
    assert bytes(two) == bytes(block.buffer) == bytes(SIZE)


def test_release_is_told_once_when_the_last_view_of_any_kind_is_gone(block: Block) -> None:
    told: list[int] = []
    view = map_private(block.fd, SIZE, lambda: told.append(1))
    part = view[8:SIZE][8:64]
    array = np.frombuffer(part, np.uint16)[3:]
    readonly = memoryview(array.data).toreadonly()
    view = part = array = None
    gc.collect()
    assert told == []
    assert readonly.nbytes == 50
    readonly = None
    gc.collect()
    assert told == [1]


def test_a_view_outlives_the_descriptor_that_it_came_from(block: Block) -> None:
    block.buffer[:4] = b"kept"
    copy = os.dup(block.fd)
    view = map_private(copy, 4, nothing)
    os.close(copy)
    block.close()
    assert bytes(view) == b"kept"


@pytest.mark.parametrize("size", [0, -1, SIZE + 1, 1 << 40])
def test_more_than_a_block_has_is_not_mapped(block: Block, size: int) -> None:
    with pytest.raises(ValueError, match="are not in a block"):
        map_private(block.fd, size, nothing)


def refused(fd: int, match: str) -> None:
    try:
        with pytest.raises(ValueError, match=match):
            map_private(fd, SIZE, nothing)
    finally:
        os.close(fd)


def test_memory_that_could_shrink_under_its_reader_is_not_mapped() -> None:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.posix_fallocate(fd, 0, SIZE)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    refused(fd, "could shrink")


def test_memory_that_is_not_reserved_is_not_mapped() -> None:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, SIZE)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    refused(fd, "0 of them reserved")


def test_a_descriptor_of_something_else_is_not_mapped() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    refused(reader, "could shrink")
