from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc import PeerLost
from pzc.protocol.errors import RemoteProtocolError
from pzc.protocol.frames import MAX_CONTENT
from pzc.shm import machine
from pzc.shm.blocks import Block
from pzc.transport.link_stream import INLINE, LinkStream

from tests.transport.streaming import HEAD, LARGE, NEVER, attached, packed, soon

pytestmark = pytest.mark.skipif(not machine.MEMORY, reason="blocks are made only on Linux")


CARRIED = 8
"""Flag of a message with which a descriptor comes."""


@pytest.fixture
def block() -> Iterator[Block]:
    made = Block.create(LARGE)
    yield made
    made.close()


def memfds() -> list[int]:
    """Descriptors of blocks that are open in this process."""
    found: list[int] = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that listed the directory
            if os.readlink(f"/proc/self/fd/{number}").startswith("/memfd:pzc"):
                found.append(int(number))
    return found


def refused(raw: tuple[LinkStream, socket.socket], text: str) -> None:
    """The next message is an error that says so, and nothing is left of it."""
    stream, peer = raw
    with pytest.raises(RemoteProtocolError, match=text):
        stream.receive(soon(), NEVER)
    assert not stream.idle()
    with contextlib.suppress(ConnectionResetError):  # something was left unread
        assert peer.recv(1) == b""


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ((0, 0, 1, 1, 1, 1, 1, 0), "version 0"),
        ((2, 0, 1, 1, 1, 1, 1, 0), "version 2"),
        ((1, 1, 1, 1, 1, 1, 1, 0), "flags 0x1"),
        ((1, 9, 1, 1, 1, 1, 1, 0), "flags 0x9"),
        ((1, 0, 2049, 1, 1, 1, 1, 0), "impossible lengths"),
        ((1, 0, 1, 33, 1, 1, 1, 0), "impossible lengths"),
        ((1, 0, 1, 1, 129, 1, 1, 0), "impossible lengths"),
        ((1, 0, 1, 1, 1, 513, 1, 0), "impossible lengths"),
        ((1, 0, 1, 1, 1, 1, MAX_CONTENT + 1, 0), "impossible lengths"),
        ((1, 0, 1, 1, 1, 1, 1, 17), "17 behind them"),
    ],
)
def test_a_head_that_cannot_be_is_refused(
    raw: tuple[LinkStream, socket.socket], head: tuple[int, ...], text: str
) -> None:
    raw[1].sendall(HEAD.pack(*head))
    refused(raw, text)


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_descriptors_that_nobody_announced_are_refused(
    raw: tuple[LinkStream, socket.socket], block: Block, count: int
) -> None:
    raw[1].sendmsg([packed()], attached(*[block.fd] * count))
    refused(raw, "came with a message that has none" if count == 1 else "too many descriptors")


def test_a_descriptor_with_every_byte_is_refused(raw: tuple[LinkStream, socket.socket], block: Block) -> None:
    for byte in packed()[:10]:
        raw[1].sendmsg([bytes([byte])], attached(block.fd))
    refused(raw, "too many descriptors")


def test_a_received_descriptor_does_not_pass_to_programs_that_are_started(
    raw: tuple[LinkStream, socket.socket], block: Block
) -> None:
    stream, peer = raw
    peer.sendmsg([packed(flags=CARRIED)], attached(block.fd))
    stream.receive(soon(), NEVER)
    assert len(memfds()) > 1
    assert not any(map(os.get_inheritable, memfds()))


HEADS = st.builds(
    HEAD.pack,
    st.sampled_from([1, 1, 1, 1, 0, 2]),
    st.sampled_from([0, 0, CARRIED, CARRIED, 1, 255]),
    st.sampled_from([0, 6, 2048, 2049, 65_535]),
    st.sampled_from([0, 4, 32, 33, 255]),
    st.sampled_from([0, 3, 128, 129]),
    st.sampled_from([0, 3, 512, 513]),
    st.sampled_from([0, 7, INLINE, INLINE + 1, LARGE, 200_000, MAX_CONTENT, MAX_CONTENT + 1, 2**32 - 1]),
    st.sampled_from([0, 0, 0, 1, 2**32 - 1]),
)
PIECES = st.lists(
    st.tuples(st.one_of(HEADS, st.binary(max_size=60), st.just(packed()), st.just(packed(flags=CARRIED))), st.integers(0, 3)),
    max_size=6,
)  # fmt: skip


def drain(stream: LinkStream) -> None:
    while True:
        stream.receive(soon(), NEVER)


@given(PIECES)
def test_whatever_a_peer_sends_ends_with_a_message_or_an_error_and_leaves_nothing(
    pieces: list[tuple[bytes, int]],
) -> None:
    block = Block.create(LARGE)
    one, two = socket.socketpair()
    stream = LinkStream(one)
    with two:
        for data, count in pieces:
            two.sendmsg([data], attached(*[block.fd] * count))
    block.close()
    with pytest.raises((RemoteProtocolError, PeerLost)):
        drain(stream)
    stream.close()
    assert memfds() == []
