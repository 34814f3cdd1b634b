"""The rig itself: a network of a test is what it claims to be, and nothing of it stays."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time

import pytest

from tests.contract.rigs import namespaces
from tests.contract.rigs.namespaces import Host, Lab, sweep

GROUP = "239.255.80.90"
SHORT = 0.3
"""Seconds in which a datagram that is not blocked has long come."""

Pair = tuple[Host, Host]


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Pair:
    segment = lab.segment()
    return lab.host("one", segment), lab.host("two", segment)


def ears(host: Host, interface: int = 0) -> socket.socket:
    """A socket that hears the group at an interface."""
    hearing = host.socket(socket.SOCK_DGRAM)
    hearing.bind(("", 0))
    member = socket.inet_aton(GROUP) + socket.inet_aton(host.addresses[interface])
    hearing.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    return hearing


def say(host: Host, to: socket.socket, interface: int = 0) -> None:
    with host.socket(socket.SOCK_DGRAM) as saying:
        address = socket.inet_aton(host.addresses[interface])
        saying.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, address)
        saying.sendto(b"here", (GROUP, to.getsockname()[1]))


def test_multicast_reaches_the_other_host(pair: Pair) -> None:
    with ears(pair[1]) as hearing:
        say(pair[0], hearing)
        data, (address, _) = hearing.recvfrom(100)
        assert (data, address) == (b"here", pair[0].address)


def test_multicast_is_blocked_until_it_is_not(pair: Pair) -> None:
    with ears(pair[1]) as hearing:
        hearing.settimeout(SHORT)
        with pair[0].without_multicast():
            with pytest.raises(PermissionError):
                say(pair[0], hearing)
        with pair[1].without_multicast():
            say(pair[0], hearing)
            with pytest.raises(TimeoutError):
                hearing.recv(100)
        say(pair[0], hearing)
        assert hearing.recv(100) == b"here"


def test_multicast_stays_in_the_segment_of_its_interface(lab: Lab) -> None:
    left, right = lab.segment(), lab.segment()
    both, other = lab.host("both", left, right), lab.host("other", right)
    with ears(other) as hearing:
        hearing.settimeout(SHORT)
        say(both, hearing, interface=0)
        with pytest.raises(TimeoutError):
            hearing.recv(100)
        say(both, hearing, interface=1)
        assert hearing.recv(100) == b"here"


def test_a_port_is_blocked_until_it_is_not(pair: Pair) -> None:
    with pair[1].socket(socket.SOCK_STREAM) as listening:
        listening.bind(("", 0))
        listening.listen()
        port = listening.getsockname()[1]
        with pair[1].dropping(f"tcp dport {port}"), pair[0].socket(socket.SOCK_STREAM) as blocked:
            blocked.settimeout(SHORT)
            with pytest.raises(TimeoutError):
                blocked.connect((pair[1].address, port))
        with pair[0].socket(socket.SOCK_STREAM) as free:
            free.connect((pair[1].address, port))


def test_about_as_many_datagrams_are_lost_as_were_asked_for(pair: Pair) -> None:
    rounds, each = 20, 50  # as many as a socket holds
    came = 0
    with pair[1].socket(socket.SOCK_DGRAM) as hearing, pair[0].socket(socket.SOCK_DGRAM) as saying:
        hearing.bind(("", 0))
        to = pair[1].address, hearing.getsockname()[1]
        for _ in range(rounds):
            with pair[1].loss(20):
                for _ in range(each):
                    saying.sendto(b"x", to)
            saying.sendto(b"end", to)
            came += sum(1 for _ in iter(lambda: hearing.recv(10), b"end"))
    assert 0.7 < came / (rounds * each) < 0.9


def test_a_delay_holds_each_way() -> None:
    delay = 0.05
    with Lab() as lab:
        segment = lab.segment()
        near, far = lab.host("near", segment), lab.host("far", segment, delay=delay)
        _check_delay(near, far, delay)


def _check_delay(near: Host, far: Host, delay: float) -> None:
    with far.socket(socket.SOCK_STREAM) as listening, near.socket(socket.SOCK_STREAM) as dialling:
        listening.bind(("", 0))
        listening.listen()
        began = time.monotonic()
        dialling.connect((far.address, listening.getsockname()[1]))
        assert time.monotonic() - began >= 2 * delay


def test_no_way_leads_out(pair: Pair) -> None:
    with (
        pair[0].socket(socket.SOCK_STREAM) as dialling,
        pytest.raises(OSError, match="unreachable") as caught,
    ):
        dialling.connect(("192.0.2.1", 9))
    assert caught.value.errno == errno.ENETUNREACH


def test_nothing_stays_of_a_lab() -> None:
    before = own()
    with Lab() as lab:
        lab.host("one", lab.segment(), delay=0.001)
        assert len(own()) == len(before) + 2
    assert own() == before


def own() -> list[str]:
    """Namespaces of this process; others that run meanwhile have theirs."""
    return [name for name in namespaces.namespaces() if name.startswith(f"{namespaces.owner()}-")]


KILLED = """
import os, subprocess
from tests.contract.rigs.namespaces import Lab

lab = Lab()
host = lab.host("one", lab.segment(), delay=0.001)
lab.left = host.python("-c", "import sys; sys.stdin.read()", stdin=0, stdout=subprocess.DEVNULL)
print(lab.switch, flush=True)
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_run_left_is_removed_by_the_next_one() -> None:
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", KILLED], stdin=reading, stdout=subprocess.PIPE, text=True, check=False
        )
        switch = done.stdout.strip()
        assert switch in namespaces.namespaces()
        assert switch in sweep()
        assert switch not in namespaces.namespaces()
    finally:
        os.close(reading)
        os.close(writing)


def test_the_networks_of_runs_that_go_on_are_left_alone(pair: Pair) -> None:
    assert pair[0].namespace not in sweep()
    assert pair[0].namespace in namespaces.namespaces()
