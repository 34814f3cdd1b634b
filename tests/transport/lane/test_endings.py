"""How the waits of a lane end: in time, by a signal, by either end; and nothing is left open."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.transport.lane.ends import LaneError, ask, lane, lanes, recorded, wire


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def interrupted() -> Iterator[None]:
    """A signal comes in a tenth of a second, and its handler raises."""

    def handler(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("seconds", [0.0, 0.00001, 0.005, 0.05])
def test_nobody_answers_in_time(seconds: float) -> None:
    with wire(True) as (c, _):
        began = time.monotonic()
        with pytest.raises(LaneError, match="late"):
            ask(c, b"x", seconds)
        assert seconds <= time.monotonic() - began < seconds + 2


def test_what_did_not_go_out_at_all_leaves_the_connection_as_it_was() -> None:
    one, other = socket.socketpair()
    filler = one.dup()
    c = lane(one, True)
    filler.setblocking(False)
    filled = 0
    try:
        while True:
            filled += filler.send(bytes(4096))
    except BlockingIOError:
        pass
    with filler, other:
        for seconds in (1e-9, 0.05):
            with pytest.raises(LaneError, match="unsent"):
                c.post([b"x"], seconds)
        while filled:
            filled -= len(other.recv(filled))
        c.post([b"y"], 5.0)
        assert other.recv(1 << 16).endswith(b"y")
        c.close()


def test_what_went_out_in_part_ends_the_connection() -> None:
    with wire(True) as (c, other):
        with pytest.raises(LaneError, match="broken"):
            c.post([bytes(60_000)] * 40, 0.05)
        with pytest.raises(LaneError, match="broken"):
            c.post([b"x"], 0.05)
        while other.recv(1 << 20):
            pass


def test_what_the_kernel_does_not_take_at_once_is_the_callers() -> None:
    body, sent = bytes(60_000), bytearray()
    with wire(True) as (c, other), wire(False) as (reader, writer):
        rests: list[bytes] = []
        while not rests:
            [_], rest = c.post([body], 0.0)
            rests += [rest] if rest else []
        assert len(rests[0]) < 61_000
        other.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                sent += other.recv(1 << 16)
        sent += rests[0]
        assert c.post([b"next"], 0.0)[1] == b""
        sent += other.recv(1 << 16)
        came: list[bytes] = []
        thread = threading.Thread(target=writer.sendall, args=(sent,))
        thread.start()
        while came[-1:] != [b"next"]:
            came += [each[0] for each in reader.take(5.0)]
        thread.join(5.0)
    assert set(came[:-1]) == {body}


def test_nothing_goes_into_a_full_socket_and_all_is_the_callers() -> None:
    with wire(True) as (c, _):
        while not c.post([bytes(60_000)], 0.0)[1]:
            pass
        rest = c.post([b"x" * 100], 0.0)[1]
    assert rest.endswith(b"x" * 100)
    assert len(rest) > 200


def test_an_interrupt_ends_a_wait_and_the_lane_goes_on(interrupted: None) -> None:
    with lanes() as (asks, answers):
        with pytest.raises(KeyboardInterrupt):
            ask(asks, b"1", 30.0)
        answers.post([(b"late", answers.take(5.0)[0][1])], 5.0)
        with pytest.raises(LaneError, match="late"):
            ask(asks, b"2", 0.0)
        answers.post([(b"now", answers.take(5.0)[0][1])], 5.0)
        assert ask(asks, None, 5.0) == b"now"


def test_replies_to_another_request_stretch_no_wait() -> None:
    with lanes() as (asks, answers):
        with pytest.raises(LaneError, match="late"):
            ask(asks, b"nobody waits for it", 0.0)
        other = answers.take(5.0)[0][1]
        with pytest.raises(LaneError, match="late"):
            ask(asks, b"awaited", 0.0)
        awaited = answers.take(5.0)[0][1]
        answers.post([(b"x", other)] * 300 + [(b"y", awaited)], 5.0)
        with pytest.raises(LaneError, match="late"):
            ask(asks, None, 0.0)
        assert ask(asks, None, 5.0) == b"y"


def test_an_interrupt_ends_a_wait_of_a_server(interrupted: None) -> None:
    with wire(False) as (c, _), pytest.raises(KeyboardInterrupt):
        c.take(30.0)


def test_an_interrupt_ends_a_send_that_nobody_takes(interrupted: None) -> None:
    with wire(True) as (c, _):
        with pytest.raises(KeyboardInterrupt):
            c.post([bytes(60_000)] * 40, 30.0)
        with pytest.raises(LaneError, match="broken"):
            c.post([b"x"], 1.0)


def test_a_signal_whose_handler_returns_ends_no_wait() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        with wire(True) as (c, _), pytest.raises(LaneError, match="late"):
            ask(c, b"x", 0.3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(rung) > 3


def test_a_lost_peer_ends_a_wait() -> None:
    with wire(True) as (c, other):
        threading.Timer(0.05, other.close).start()
        with pytest.raises(LaneError, match="gone"):
            ask(c, b"x", 30.0)
        with pytest.raises(LaneError, match="broken"):
            ask(c, b"x", 30.0)


def test_what_came_before_the_peer_was_lost_is_handed_out() -> None:
    with wire(False) as (c, other):
        other.sendall(recorded(b"1") + recorded(b"2", first=2) + b"half")
        other.close()
        assert [each[0] for each in c.take(5.0)] == [b"1", b"2"]
        with pytest.raises(LaneError, match="gone"):
            c.take(5.0)


def test_a_close_ends_the_wait_of_another_thread() -> None:
    with wire(False) as (c, other):
        threading.Timer(0.05, c.close).start()
        with pytest.raises(LaneError, match="closed"):
            c.take(30.0)
        assert other.recv(1) == b""
        with pytest.raises(LaneError, match="closed"):
            c.take(30.0)


def test_two_threads_do_not_receive_at_once() -> None:
    with wire(False) as (c, _):
        failed = threading.Event()

        def take() -> None:
            with pytest.raises(LaneError):
                c.take(30.0)
            failed.set()

        thread = threading.Thread(target=take)
        thread.start()
        refused = False
        while not refused:  # until the thread waits
            try:
                c.take(0.0)
            except LaneError:
                continue
            except RuntimeError:
                refused = True
        c.close()
        assert failed.wait(5.0)
        thread.join(5.0)


def test_one_thread_sends_while_another_receives() -> None:
    with lanes() as (asks, answers):
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.extend(each[0] for each in asks.take(30.0)))
        thread.start()
        asks.post([b"x"], 5.0)
        [(body, msgid, _, _)] = answers.take(5.0)
        answers.post([(body + b"!", msgid)], 5.0)
        thread.join(5.0)
        assert got == [b"x!"]


def test_others_run_while_a_lane_waits() -> None:
    with wire(False) as (c, _):
        ran = threading.Event()
        thread = threading.Thread(target=ran.set)
        threading.Timer(0.0, thread.start).start()
        with pytest.raises(LaneError, match="late"):
            c.take(0.5)
        assert ran.is_set()
        thread.join(5.0)


def test_a_lane_refuses_in_a_forked_child_and_the_parents_goes_on() -> None:
    with lanes() as (asks, answers):
        child = os.fork()
        if not child:
            try:
                asks.post([b"child"], 1.0)
            except LaneError as exc:
                asks.close()
                os._exit(0 if exc.args == ("forked",) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        asks.post([b"parent"], 5.0)
        assert answers.take(5.0)[0][0] == b"parent"


def test_no_descriptor_is_left_open() -> None:
    before = descriptors()
    for _ in range(20):
        with lanes() as (asks, answers):
            asks.post([b"x"], 5.0)
            answers.take(5.0)
        one, other = socket.socketpair()
        with other, open("/dev/null", "rb") as file:
            c = lane(one, False)
            other.sendmsg(
                [b"\x01\x03"],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, file.fileno().to_bytes(4, "little"))],
            )
            with pytest.raises(LaneError, match="late"):
                c.take(0.0)
            assert c.take  # a descriptor waits for its message when the lane goes
        del c
    assert descriptors() == before


def test_descriptors_that_are_handed_over_belong_to_the_caller() -> None:
    before = descriptors()
    with wire(False) as (c, other), open("/dev/null", "rb") as file:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, file.fileno().to_bytes(4, "little"))]
        other.sendmsg([b"\x01\x03" + bytes(18)], rights)
        assert c.take(5.0) is None
        data, [fd] = c.unread()
        assert data == b"\x01\x03" + bytes(18)
        os.close(fd)
    assert descriptors() == before


def test_only_what_is_read_whole_can_be_fed_back() -> None:
    with wire(False) as (c, other):
        other.sendall(b"abc")
        with pytest.raises(LaneError, match="late"):
            c.take(0.0)
        with pytest.raises(ValueError, match="unread"):
            c.feed(b"x")
        assert c.unread() == (b"abc", [])
        c.feed(b"abc")
        assert c.unread() == (b"abc", [])


def test_whoever_is_waited_for_long_is_not_robbed_of_the_core() -> None:
    """After some spins in vain most waits sleep at once: they cost little of the processor's time."""
    with wire(False) as (c, _):
        c.spin = 2000

        def spent(waits: int) -> float:
            began = time.thread_time()
            for _ in range(waits):
                with pytest.raises(LaneError, match="late"):
                    c.take(0.003)
            return (time.thread_time() - began) / waits

        spent(7)
        assert spent(50) < 0.001
