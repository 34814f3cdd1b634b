from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Iterator

import pytest

from pzc.discovery.interfaces import chosen
from pzc.discovery.multicast import Mark, Multicast, attach

from tests.conftest import free_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filters are those of Linux")

GROUP = "239.255.80.91"
MARK = Mark(4, 7)
TIMEOUT_MS = 20_000
MARKED, OTHER, SHORT = b"PZD1\x07 beat", b"PZD1\x01 news", b"PZD1"


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        made.setblocking(False)
        yield made


@pytest.fixture
def multicast() -> Iterator[Multicast]:
    made = Multicast(GROUP, free_port(), chosen("127.0.0.1"), MARK)
    yield made
    made.close()


def wait_for(fileno: int) -> None:
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    assert poll.poll(TIMEOUT_MS)


@pytest.mark.parametrize(("marked", "expected"), [(True, [MARKED]), (False, [OTHER, SHORT, b""])])
def test_a_socket_gets_the_marked_datagrams_or_the_others(
    receiver: socket.socket, marked: bool, expected: list[bytes]
) -> None:
    assert attach(receiver, MARK, marked=marked)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for data in (OTHER, MARKED, SHORT, b""):
            sender.sendto(data, receiver.getsockname())
    wait_for(receiver.fileno())
    assert [receiver.recv(100) for _ in expected] == expected
    with pytest.raises(BlockingIOError):
        receiver.recv(100)


def test_what_may_wait_comes_apart_from_the_rest_and_tells_when(multicast: Multicast) -> None:
    assert multicast.patient is not None
    before = time.time()
    for data in (MARKED, OTHER):
        assert multicast.send(data, multicast.interfaces[0])
    wait_for(multicast.patient)
    waited = multicast.receive(multicast.patient)
    assert waited is not None
    assert (waited.data, waited.carrier) == (MARKED, "group")
    assert before - 0.01 <= waited.at <= time.time() + 0.01
    at_once = [multicast.receive(fileno) for fileno in multicast.filenos()]
    assert [(each.data, each.at) for each in at_once if each is not None] == [(OTHER, 0.0)]
    assert multicast.receive(multicast.patient) is None


def test_without_a_mark_everything_comes_together() -> None:
    multicast = Multicast(GROUP, free_port(), chosen("127.0.0.1"))
    try:
        assert multicast.patient is None
        assert multicast.send(MARKED, multicast.interfaces[0])
        wait_for(multicast.filenos()[0])
        heard = multicast.receive(multicast.filenos()[0])
        assert heard is not None
        assert heard.data == MARKED
    finally:
        multicast.close()
