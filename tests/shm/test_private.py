from __future__ import annotations

import ctypes
import gc
import mmap
import os
from collections.abc import Iterator

import numpy as np
import pytest

from pzc.shm import machine
from pzc.shm.blocks import Block, address_of
from pzc.shm.private import Private

pytestmark = pytest.mark.skipif(not machine.MEMORY, reason="blocks are made only on Linux")

SIZE = 3 * mmap.PAGESIZE


def nothing() -> None:
    pass


@pytest.fixture
def block() -> Iterator[Block]:
    made = Block.create(SIZE)
    yield made
    made.close()


def test_what_the_writer_wrote_is_what_the_reader_sees(block: Block) -> None:
    block.buffer[:5] = b"hello"
    assert bytes(Private(block.fd).view(5, nothing)) == b"hello"


def test_what_a_reader_writes_nobody_else_sees(block: Block) -> None:
    one, two = Private(block.fd).view(SIZE, nothing), Private(block.fd).view(SIZE, nothing)
    np.frombuffer(one, np.uint8)[:] = 9
    assert bytes(one) == b"\t" * SIZE
    assert bytes(two) == bytes(block.buffer) == bytes(SIZE)


def test_release_is_told_once_when_the_last_view_of_any_kind_is_gone(block: Block) -> None:
    told: list[int] = []
    view = Private(block.fd).view(SIZE, lambda: told.append(1))
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
    view = Private(copy).view(4, nothing)
    os.close(copy)
    block.close()
    assert bytes(view) == b"kept"


@pytest.mark.parametrize("size", [0, -1, SIZE + 1, 1 << 40])
def test_more_than_a_block_has_is_not_mapped(block: Block, size: int) -> None:
    with pytest.raises(ValueError, match="are not in a block"):
        Private(block.fd).view(size, nothing)


def refused(fd: int, match: str) -> None:
    try:
        with pytest.raises(ValueError, match=match):
            Private(fd).view(SIZE, nothing)
    finally:
        os.close(fd)


def test_memory_that_could_shrink_under_its_reader_is_not_mapped() -> None:
    import fcntl

    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.posix_fallocate(fd, 0, SIZE)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    refused(fd, "could shrink")


def test_memory_that_is_not_reserved_is_not_mapped() -> None:
    import fcntl

    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, SIZE)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    refused(fd, "0 of them reserved")


def test_a_descriptor_of_something_else_is_not_mapped() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    refused(reader, "could shrink")


def written(view: memoryview) -> None:
    np.frombuffer(view, np.uint8)[:] = 9


def test_what_is_written_to_the_block_next_is_seen_in_the_next_view(block: Block) -> None:
    private = Private(block.fd)
    assert bytes(private.view(SIZE, nothing)) == bytes(SIZE)
    block.buffer[:] = b"n" * SIZE
    assert private.renew()
    assert not private.was_written
    assert bytes(private.view(SIZE, nothing)) == b"n" * SIZE


@pytest.mark.parametrize("place", [0, SIZE // 2, SIZE - 1])
def test_what_was_written_to_a_view_is_not_seen_in_the_next_one(block: Block, place: int) -> None:
    private = Private(block.fd)
    np.frombuffer(private.view(SIZE, nothing), np.uint8)[place] = 9
    block.buffer[:] = b"n" * SIZE
    assert private.renew()
    assert private.was_written
    assert bytes(private.view(SIZE, nothing)) == b"n" * SIZE


def test_pages_that_were_written_are_given_back_once(block: Block) -> None:
    private = Private(block.fd)
    written(private.view(SIZE, nothing))
    private.renew()
    private.renew()
    assert not private.was_written


def test_where_the_kernel_does_not_tell_what_was_written_it_is_not_seen_either(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    private = Private(block.fd)
    written(private.view(SIZE, nothing))
    block.buffer[:] = b"n" * SIZE
    monkeypatch.setattr(os, "open", refuse)
    assert private.renew()
    assert bytes(private.view(SIZE, nothing)) == b"n" * SIZE


def test_locked_memory_is_not_given_back_and_says_so(block: Block) -> None:
    private = Private(block.fd)
    view = private.view(SIZE, nothing)
    libc, address = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p(address_of(view))
    if libc.mlock(address, ctypes.c_size_t(SIZE)):
        pytest.skip("this process may lock no memory")
    written(view)
    assert not private.renew()
    assert libc.munlock(address, ctypes.c_size_t(SIZE)) == 0


def test_a_copy_is_not_changed_by_what_is_written_to_the_block(block: Block) -> None:
    private = Private(block.fd)
    block.buffer[:4] = b"kept"
    copied = private.copy(4)
    block.buffer[:4] = b"next"
    assert bytes(copied) == b"kept"
    copied[:4] = b"mine"
    assert bytes(private.view(4, nothing)) == b"next"
