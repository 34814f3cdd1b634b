from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

import pytest

from pzc.shm import machine
from pzc.shm.blocks import Block

pytestmark = pytest.mark.skipif(not machine.MEMORY, reason="blocks are made only on Linux")

SIZE = 3 * mmap.PAGESIZE


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


@pytest.mark.parametrize("size", [0, SIZE - 1, SIZE + 1])
def test_the_size_of_a_block_cannot_be_changed(block: Block, size: int) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(block.fd, size)


def test_the_seals_of_a_block_cannot_be_changed(block: Block) -> None:
    import fcntl

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
