from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator

import pytest

from pzc.discovery.interfaces import LOOPBACK, Interface, chosen
from pzc.discovery.multicast import LIMIT, SKIPPED, Datagram, Multicast
from pzc.protocol.errors import BindError

from tests.conftest import free_port

GROUP = "239.255.80.91"
TIMEOUT_MS = 20_000


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def pair(port: int) -> Iterator[tuple[Multicast, Multicast]]:
    here = chosen("127.0.0.1")
    one, two = Multicast(GROUP, port, here), Multicast(GROUP, port, here)
    yield one, two
    one.close()
    two.close()


def next_of(multicast: Multicast) -> Datagram:
    poll = select.poll()
    for fileno in multicast.filenos():
        poll.register(fileno, select.POLLIN)
    for fileno, _ in poll.poll(TIMEOUT_MS):
        datagram = multicast.receive(fileno)
        if datagram is not None:
            return datagram
    raise AssertionError("nothing came")


def test_what_one_sends_both_hear_on_the_interface(pair: tuple[Multicast, Multicast]) -> None:
    one, two = pair
    assert one.send(b"hello", one.interfaces[0])
    for each in pair:
        heard = next_of(each)
        assert (heard.data, heard.carrier, heard.interface) == (b"hello", "group", two.interfaces[0])
        assert heard.source[0] == "127.0.0.1"


def test_what_is_sent_to_the_host_one_of_its_processes_gets(
    pair: tuple[Multicast, Multicast], port: int
) -> None:
    one, _ = pair
    assert one.send_to(b"for you", ("127.0.0.1", port))
    poll = select.poll()
    owners = {fileno: each for each in pair for fileno in each.filenos()}
    for fileno in owners:
        poll.register(fileno, select.POLLIN)
    ready = poll.poll(TIMEOUT_MS)
    assert len(ready) == 1
    heard = owners[ready[0][0]].receive(ready[0][0])
    assert heard is not None
    assert (heard.data, heard.carrier) == (b"for you", "relay")


def test_a_flood_on_an_interface_that_was_not_chosen_is_skipped_in_turns(port: int) -> None:
    elsewhere = Multicast(GROUP, port, chosen("127.0.0.1"))
    elsewhere._by_index.clear()  # loopback is another one's
    with contextlib.closing(elsewhere), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        relay = next(fileno for fileno, (_, carrier) in elsewhere._sockets.items() if carrier == "relay")
        for _ in range(SKIPPED + 1):
            sender.sendto(b"flood", ("127.0.0.1", port))
        assert elsewhere.receive(relay) is None
        assert select.select([relay], [], [], 0)[0]
        assert elsewhere.receive(relay) is None
        assert not select.select([relay], [], [], 0)[0]


def test_an_answer_comes_to_whoever_sent(pair: tuple[Multicast, Multicast]) -> None:
    one, two = pair
    one.send(b"hello", one.interfaces[0])
    source = next_of(two).source
    next_of(one)
    two.send_to(b"welcome", source)
    heard = next_of(one)
    assert (heard.data, heard.carrier) == (b"welcome", "own")


def test_a_datagram_that_is_too_long_is_cut(pair: tuple[Multicast, Multicast]) -> None:
    one, two = pair
    one.send(bytes(60_000), one.interfaces[0])
    assert len(next_of(two).data) == LIMIT


def test_a_datagram_that_cannot_be_sent_is_counted_with_the_reason(pair: tuple[Multicast, Multicast]) -> None:
    one, _ = pair
    nowhere = Interface("gone", 99_999, "203.0.113.7", False)
    assert not one.send(b"hello", nowhere)
    assert one.failed == 1
    assert "gone" in one.problems
    assert one.send(b"hello", one.interfaces[0])


def test_another_group_at_the_same_port_is_not_heard(port: int) -> None:
    here = chosen("127.0.0.1")
    one, other = Multicast(GROUP, port, here), Multicast("239.255.80.92", port, here)
    try:
        one.send(b"mine", here[0])
        other.send(b"theirs", here[0])
        assert next_of(other).data == b"theirs"
        assert next_of(one).data == b"mine"
    finally:
        one.close()
        other.close()


def test_of_hosts_that_cannot_be_sent_to_nothing_is_kept(pair: tuple[Multicast, Multicast]) -> None:
    one, _ = pair
    assert not one.send_to(b"for nobody", ("255.255.255.255", 9))
    assert (one.failed, one.problems) == (1, {})


def test_a_port_of_somebody_who_does_not_share_it_is_told(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as selfish:
        selfish.bind(("0.0.0.0", port))
        with pytest.raises(
            BindError, match=r"cannot listen to 239\.255\.80\.91:\d+: .*set PZC_DISCOVERY_PORT"
        ):
            Multicast(GROUP, port, chosen("127.0.0.1"))


def test_interfaces_that_are_all_unusable_are_told_with_the_reason(port: int) -> None:
    with pytest.raises(BindError, match="on any interface: gone: "):
        Multicast(GROUP, port, [Interface("gone", 99_999, "203.0.113.7", False)])


def test_one_that_cannot_be_joined_does_not_keep_the_others_away(port: int) -> None:
    here = chosen("127.0.0.1")[0]
    multicast = Multicast(GROUP, port, [here, Interface("gone", 99_999, "203.0.113.7", False)])
    try:
        assert multicast.interfaces == [here]
        assert "gone" in multicast.problems
    finally:
        multicast.close()


def test_closing_twice_is_closing_once(port: int) -> None:
    multicast = Multicast(GROUP, port, [LOOPBACK] if not chosen("127.0.0.1") else chosen("127.0.0.1"))
    multicast.close()
    multicast.close()
    assert multicast.filenos() == []
