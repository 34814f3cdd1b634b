from __future__ import annotations

import array
import mmap
import os
import socket
import struct
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from pzc import CallTimeout, PeerLost
from pzc.protocol.errors import LocalProtocolError
from pzc.protocol.frames import MAX_CONTENT, Buffer
from pzc.shm import machine
from pzc.shm.borrowed import SHARED_BLOCKS
from pzc.shm.private import Private
from pzc.transport import descriptors
from pzc.transport.lending import LATELY
from pzc.transport.stream import INLINE, Stream, peer_pid, peer_uid

from tests.contract.rigs.calling import TIMEOUT
from tests.transport.streaming import HEAD, IN_BLOCK, LARGE, NEVER, WITH_FD, message, packed, soon

pytestmark = pytest.mark.skipif(not machine.MEMORY, reason="blocks are made only on Linux")


@pytest.fixture
def ends() -> Iterator[tuple[Stream, Stream]]:
    one, two = map(Stream, socket.socketpair())
    yield one, two
    one.close()
    two.close()


def hand_over(sender: Stream, receiver: Stream, content: Buffer = b"content") -> Buffer:
    sender.send(message(content), soon())
    return receiver.receive(soon(), NEVER)[2]


def test_a_view_that_is_held_stays_bit_identical_over_a_hundred_messages(ends: tuple[Stream, Stream]) -> None:
    one, two = ends
    content = os.urandom(LARGE)
    held = hand_over(one, two, content)
    for number in range(100):
        assert bytes(hand_over(one, two, bytes([number]) * LARGE)[:1]) == bytes([number])
        hand_over(two, one, bytes([number]) * LARGE)
    assert bytes(held) == content
    assert one.inlined == two.inlined == 0


def test_a_slice_of_an_array_holds_a_message_as_well_as_the_whole(ends: tuple[Stream, Stream]) -> None:
    one, two = ends
    content = os.urandom(LARGE)
    held = np.frombuffer(hand_over(one, two, content), np.uint8)[1000:2000][::2]
    for _ in range(100):
        hand_over(one, two, bytes(LARGE))
        hand_over(two, one)
    assert held.tobytes() == content[1000:2000:2]


def test_what_a_receiver_writes_neither_its_sender_nor_the_next_message_sees(
    ends: tuple[Stream, Stream],
) -> None:
    one, two = ends
    mine = one.allocate(LARGE)
    mine[:] = b"1" * LARGE
    for _ in range(3):
        received = hand_over(one, two, mine)
        assert bytes(received) == b"1" * LARGE
        np.frombuffer(received, np.uint8)[:] = 9
        assert bytes(mine) == b"1" * LARGE
        hand_over(two, one)


def test_over_eight_messages_that_are_held_are_copied_over_the_socket(ends: tuple[Stream, Stream]) -> None:
    one, two = ends
    held = [hand_over(one, two, bytes([number]) * LARGE) for number in range(SHARED_BLOCKS + 2)]
    assert one.inlined == 2
    assert [bytes(content) for content in held] == [bytes([n]) * LARGE for n in range(len(held))]


def test_blocks_that_were_given_back_are_used_again(ends: tuple[Stream, Stream]) -> None:
    one, two = ends
    for _ in range(5):
        held = [hand_over(one, two, bytes(LARGE)) for _ in range(SHARED_BLOCKS)]
        held.clear()
        hand_over(two, one)  # brings the news
    assert one.inlined == 0


def test_nothing_is_given_back_without_a_message(ends: tuple[Stream, Stream]) -> None:
    one, two = ends
    for _ in range(SHARED_BLOCKS + 1):
        hand_over(one, two, bytes(LARGE))
    assert one.inlined == 1
    assert one.idle()


def test_the_descriptor_of_a_block_is_sent_once(raw: tuple[Stream, socket.socket]) -> None:
    stream, peer = raw
    seen = []
    for _ in range(3):
        stream.send(message(bytes(LARGE)), soon())
        data, rights, _, _ = peer.recvmsg(65_536, socket.CMSG_LEN(16))
        head = HEAD.unpack_from(data)
        seen.append((head[1], head[7], len(rights)))
        for _, _, fd in rights:
            os.close(*struct.unpack("i", fd))
        peer.sendall(packed(notes=(1,)))
        stream.receive(soon(), NEVER)
    assert seen == [(IN_BLOCK | WITH_FD, 1, 1), (IN_BLOCK, 1, 0), (IN_BLOCK, 1, 0)]


def test_what_was_written_to_allocated_memory_is_not_copied(raw: tuple[Stream, socket.socket]) -> None:
    stream, peer = raw
    memory = stream.allocate(LARGE)
    memory[:5] = b"first"
    stream.send(message(memory), soon())
    _, rights, _, _ = peer.recvmsg(65_536, socket.CMSG_LEN(4))
    (fd,) = struct.unpack("i", rights[0][2])
    seen = Private(fd).view(LARGE, int)
    os.close(fd)
    memory[:5] = b"later"  # against the rules, to see whether there is one memory or two
    assert bytes(seen[:5]) == b"later"


def test_many_messages_leave_no_descriptor(ends: tuple[Stream, Stream]) -> None:
    one, two = ends

    def both(size: int) -> None:
        hand_over(one, two, bytes(size))
        hand_over(two, one, bytes(size))

    for size in (LARGE, 9 * LARGE):
        both(size)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(300):
        both(LARGE + 1000 * number)
    # Each end keeps a few warm blocks of its own and knows those of the other.
    assert len(os.listdir("/proc/self/fd")) <= before + 4 * 3 * SHARED_BLOCKS
    for _ in range(LATELY + 5):
        both(LARGE)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_stream_that_is_closed_closes_every_descriptor_and_what_it_received_stays(
    ends: tuple[Stream, Stream],
) -> None:
    one, two = ends
    held = [hand_over(one, two, bytes([n]) * LARGE) for n in range(3)]
    one.close()
    two.close()
    assert [content[-1] for content in held] == [0, 1, 2]


def test_memory_that_is_refused_is_no_obstacle(ends: tuple[Stream, Stream]) -> None:
    import resource

    one, two = ends
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        memory = one.allocate(LARGE)
        memory[:] = b"x" * LARGE
        assert hand_over(one, two, memory) == memory
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert one.inlined == 1


def test_a_content_over_one_gibibyte_is_refused_and_the_next_is_sent(ends: tuple[Stream, Stream]) -> None:
    one, two = ends
    with pytest.raises(LocalProtocolError, match="the limit is"):
        one.send(message(memoryview(mmap.mmap(-1, MAX_CONTENT + 1))), soon())
    assert hand_over(one, two) == b"content"


def test_frames_are_counted_in_bytes_whatever_they_are_views_of(ends: tuple[Stream, Stream]) -> None:
    one, two = ends
    for count in (3, LARGE):
        numbers = array.array("d", range(count))
        assert bytes(hand_over(one, two, memoryview(numbers))) == numbers.tobytes()


def test_a_view_with_holes_is_refused(ends: tuple[Stream, Stream]) -> None:
    one, _ = ends
    with pytest.raises(LocalProtocolError, match="cannot be sent"):
        one.send(message(memoryview(b"abcdef")[::2]), soon())


def test_a_message_may_come_byte_by_byte_and_two_at_once(raw: tuple[Stream, socket.socket]) -> None:
    stream, peer = raw
    data = packed(b"one", notes=()) + packed(b"two") + packed(b"three")

    def drip() -> None:
        for at in range(50):
            peer.sendall(data[at : at + 1])
        peer.sendall(data[50:])

    thread = threading.Thread(target=drip)
    thread.start()
    assert [stream.receive(soon(), NEVER)[2] for _ in range(3)] == [b"one", b"two", b"three"]
    thread.join(TIMEOUT)
    assert stream.idle()


def test_before_the_rest_of_a_message_is_waited_for_that_is_told(raw: tuple[Stream, socket.socket]) -> None:
    stream, peer = raw
    told = threading.Event()
    stream.on_rest = told.set
    peer.sendall(packed())
    stream.receive(soon(), NEVER)
    assert not told.is_set()
    peer.sendall(packed()[:-1])
    sender = threading.Thread(target=lambda: (told.wait(TIMEOUT), peer.sendall(packed()[-1:])))
    sender.start()
    stream.receive(soon(), NEVER)
    assert told.is_set()
    sender.join(TIMEOUT)


def test_a_rest_that_was_received_along_is_not_idle(raw: tuple[Stream, socket.socket]) -> None:
    stream, peer = raw
    peer.sendall(packed() + packed()[:5])
    stream.receive(soon(), NEVER)
    assert not stream.idle()


def test_a_message_that_stops_in_the_middle_is_a_timeout_and_the_stream_is_closed(
    raw: tuple[Stream, socket.socket],
) -> None:
    stream, peer = raw
    peer.sendall(packed()[:-1])
    with pytest.raises(CallTimeout):
        stream.receive(soon(0.02), NEVER)
    assert not stream.idle()
    assert peer.recv(1) == b""
    with pytest.raises(PeerLost):
        stream.receive(soon(), NEVER)


@pytest.mark.parametrize("size", [1, 15, 16, 40])
def test_a_peer_that_goes_in_the_middle_of_a_message_is_lost(
    raw: tuple[Stream, socket.socket], size: int
) -> None:
    stream, peer = raw
    peer.sendall(packed()[:size])
    peer.shutdown(socket.SHUT_WR)
    with pytest.raises(PeerLost, match="lost during the call"):
        stream.receive(soon(), NEVER)


def test_a_message_is_sent_in_parts_while_the_peer_reads_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pzc.transport.lending.SHARED_BLOCKS", 0)
    one, two = socket.socketpair()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stream, content, received = Stream(one), os.urandom(300_000), bytearray()

    def read() -> None:
        while data := two.recv(1000):
            received.extend(data)

    thread = threading.Thread(target=read)
    thread.start()
    stream.send(message(content), soon())
    stream.send(message(b"small"), soon())
    stream.close()
    thread.join(TIMEOUT)
    two.close()
    assert received == packed(content) + packed(b"small")
    assert stream.inlined == 1


def flood(stream: Stream, content: bytes) -> None:
    for _ in range(10_000):
        stream.send(message(content), soon(0.02))


@pytest.mark.parametrize("size", [5, INLINE])
def test_a_peer_that_does_not_read_is_a_timeout_and_the_stream_is_closed(size: int) -> None:
    one, two = socket.socketpair()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stream = Stream(one)
    with two:
        with pytest.raises(CallTimeout, match="did not take the message in time"):
            flood(stream, bytes(size))
        assert not stream.idle()
    stream.close()


def test_one_thread_sends_while_another_receives(ends: tuple[Stream, Stream]) -> None:
    one, two = ends
    count = 300

    def send(stream: Stream) -> None:
        for number in range(count):
            stream.send(message(bytes([number % 256]) * (LARGE if number % 3 else 5)), soon())

    threads = [threading.Thread(target=send, args=(stream,)) for stream in ends]
    for thread in threads:
        thread.start()
    for number in range(count):
        for stream in (two, one):
            assert stream.receive(soon(), NEVER)[2][-1] == number % 256
    for thread in threads:
        thread.join(TIMEOUT)


def test_the_kernel_tells_who_the_peer_is() -> None:
    one, two = socket.socketpair()
    with one, two:
        assert peer_pid(one) == os.getpid()
        assert peer_uid(one) == os.getuid()


def test_a_content_that_its_sender_alone_wrote_is_told_apart(ends: tuple[Stream, Stream]) -> None:
    one, two = ends
    mine = one.allocate(LARGE)
    assert one.proves(mine)
    assert not one.proves(bytes(LARGE))
    told = []
    for content in (mine, bytes(LARGE), b"small"):
        hand_over(one, two, content)
        told.append(two.referred)
    assert told == [True, False, False]


def test_a_descriptor_that_the_kernel_could_not_give_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(descriptors.Starved, match="ulimit -n"):
        descriptors.Descriptors().keep((), int(socket.MSG_CTRUNC))
