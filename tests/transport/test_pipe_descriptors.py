from __future__ import annotations

import os
import socket
import struct
import threading

import numpy as np
import pytest

from pzc.protocol.errors import RemoteProtocolError
from pzc.shm import machine
from pzc.shm.blocks import Block
from pzc.shm.views import Mapped
from pzc.transport.framing import compose
from pzc.transport.pipe import Pipe
from pzc.transport.stream import Stream

from tests.contract.rigs.calling import TIMEOUT
from tests.transport.piping import CARRYING, HUGE, Link, descriptors, identity
from tests.transport.streaming import HEAD, LARGE, NEVER, attached, message, soon

pytestmark = pytest.mark.skipif(not machine.MEMORY, reason="descriptors come over Unix sockets")


def test_a_descriptor_comes_with_its_message(link: Link, files: list[int]) -> None:
    inodes = [os.fstat(fd).st_ino for fd in files]
    for fd in (files[0], -1, files[1], files[2], -1):
        assert link.push(b"content", fd)
    came = [link.receive()[1] for _ in range(5)]
    assert [identity(fd) if fd >= 0 else -1 for fd in came] == [inodes[0], -1, inodes[1], inodes[2], -1]


def test_a_descriptor_is_taken_once(link: Link, files: list[int]) -> None:
    link.push(b"content", files[0])
    _, fd = link.receive()
    os.close(fd)
    assert link.reader.stream.take_descriptor() == -1


def test_a_descriptor_that_nobody_takes_is_closed(link: Link, files: list[int]) -> None:
    before = descriptors()
    for fd in files:
        link.push(b"content", fd)
        link.reader.receive(soon(), NEVER)
        assert descriptors() == before + 1
    link.push()
    link.reader.receive(soon(), NEVER)
    assert descriptors() == before
    link.push(b"content", files[0])
    link.reader.receive(soon(), NEVER)
    link.close()
    assert descriptors() < before


def test_the_descriptor_of_a_large_message_comes_with_it(link: Link, files: list[int]) -> None:
    inode = os.fstat(files[0]).st_ino
    link.push(bytes(HUGE), files[0])
    assert [len(content) for content in link.contents(1)] == [HUGE]
    assert identity(link.reader.stream.take_descriptor()) == inode
    link.push(bytes(LARGE), files[0])
    content, fd = link.receive()
    assert (len(content), identity(fd)) == (LARGE, inode)


def test_a_descriptor_waits_with_its_message_though_the_caller_closes_its_own(
    link: Link, files: list[int]
) -> None:
    inode, count = os.fstat(files[0]).st_ino, 0
    frames = link.exchange.session.seal(None, 1, 1, answers=link.opened, packed=("pickle", b"x"))
    while link.exchange.stream.write_now(compose(frames)):
        count += 1
    before = descriptors()
    own = os.dup(files[0])
    assert link.push(b"content", own)
    os.close(own)
    assert descriptors() == before + 1
    assert not link.exchange.flush()
    assert [link.receive()[1] for _ in range(count)] == [-1] * count
    assert link.exchange.flush()
    assert descriptors() == before
    assert identity(link.receive()[1]) == inode


def test_a_block_is_handed_over_and_seen(link: Link) -> None:
    block, mapped = Block.create(1 << 16), Mapped()
    block.buffer[:5] = b"hello"
    link.push(b"content", block.fd)
    mapped.add(1, link.receive()[1])
    view = mapped.view(1, 1 << 16, int)
    assert np.frombuffer(view, np.uint8)[:5].tobytes() == b"hello"
    mapped.close()
    block.close()


def carrying(content: bytes = b"content", flags: int = CARRYING) -> bytes:
    head = HEAD.pack(1, flags, 6, 4, 3, 3, len(content), 0)
    return head + b"headerjsonurntag" + content


def test_a_descriptor_that_does_not_come_is_refused(raw: tuple[Stream, socket.socket]) -> None:
    stream, peer = raw
    peer.sendall(carrying())
    with pytest.raises(RemoteProtocolError, match="did not come"):
        stream.receive(soon(), NEVER)


def test_a_descriptor_too_many_is_refused(raw: tuple[Stream, socket.socket], files: list[int]) -> None:
    stream, peer = raw
    peer.sendmsg([carrying()], attached(*files[:2]))
    with pytest.raises(RemoteProtocolError, match="descriptor"):
        stream.receive(soon(), NEVER)


@pytest.mark.parametrize("flags", [9, 12, 24, 16])
def test_unknown_flags_are_refused(raw: tuple[Stream, socket.socket], files: list[int], flags: int) -> None:
    stream, peer = raw
    peer.sendmsg([carrying(flags=flags)], attached(files[0]))
    with pytest.raises(RemoteProtocolError, match="flags"):
        stream.receive(soon(), NEVER)


def test_two_messages_with_descriptors_that_come_byte_by_byte_are_told_apart(
    raw: tuple[Stream, socket.socket], files: list[int]
) -> None:
    stream, peer = raw
    inodes, came = [os.fstat(fd).st_ino for fd in files[:2]], []

    def drip() -> None:
        for fd in files[:2]:
            data = carrying()
            peer.sendmsg([data[:1]], attached(fd))
            for at in range(1, len(data)):
                peer.sendall(data[at : at + 1])

    thread = threading.Thread(target=drip)
    thread.start()
    for _ in inodes:
        stream.receive(soon(), NEVER)
        came.append(identity(stream.take_descriptor()))
    thread.join(TIMEOUT)
    assert came == inodes


def test_a_descriptor_that_was_not_taken_leaves_room_for_the_next_two(
    raw: tuple[Stream, socket.socket], files: list[int]
) -> None:
    stream, peer = raw
    peer.sendmsg([carrying()], attached(files[0]))
    stream.receive(soon(), NEVER)
    peer.sendmsg([carrying()[:30]], attached(files[1]))
    peer.sendall(carrying()[30:])
    peer.sendmsg([carrying()], attached(files[2]))
    for fd in files[1:]:
        stream.receive(soon(), NEVER)
        assert identity(stream.take_descriptor()) == os.fstat(fd).st_ino


def test_the_flag_stands_where_the_layout_says(files: list[int]) -> None:
    one, two = socket.socketpair()
    stream = Stream(one)
    pipe = Pipe(stream)
    with two:
        pipe.push(message(), files[0])
        data, rights, _, _ = two.recvmsg(1000, socket.CMSG_LEN(4))
    pipe.close()
    stream.close()
    os.close(*struct.unpack("i", rights[0][2]))
    assert (data, HEAD.unpack_from(data)[1]) == (carrying(), CARRYING)
