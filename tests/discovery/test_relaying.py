from __future__ import annotations

from collections.abc import Sequence

import pytest

from pzc.discovery.announcer import Announcer
from pzc.discovery.datagrams import Reader, passed_on, was_passed_on
from pzc.discovery.interfaces import Interface
from pzc.discovery.multicast import Carrier, Datagram, Multicast
from pzc.discovery.reach import Reach
from pzc.discovery.records import Subscribe
from pzc.discovery.relaying import GUEST_STAYS, MAX_GUESTS, Relaying

LO = Interface("lo", 1, "127.0.0.1", True)
ETH = Interface("eth0", 2, "10.0.0.7", False)
GUEST = ("10.9.0.1", 4000)
DATA = b"PZD\x01\x01\x00\x00body"


class Recorded(Multicast):
    """A multicast that remembers what it should send."""

    def __init__(self) -> None:
        self.interfaces = (LO, ETH)
        self.group: list[tuple[bytes, str]] = []
        self.alone: list[tuple[bytes, tuple[str, int]]] = []

    def send(self, data: bytes, interface: Interface) -> bool:
        self.group.append((data, interface.name))
        return True

    def send_to(self, data: bytes, address: tuple[str, int]) -> bool:
        self.alone.append((data, address))
        return True


def whole(_: Interface) -> Sequence[bytes]:
    return [b"all of it"]


def told(
    relaying: Relaying, way: Carrier, now: float = 0.0, source: tuple[str, int] = GUEST, data: bytes = DATA
) -> Recorded:
    recorded = Recorded()
    datagram = Datagram(data, ETH, source, way)
    relaying.heard(recorded, datagram, was_passed_on(data), now, whole)
    return recorded


def ready(*relays: tuple[str, int]) -> Relaying:
    relaying = Relaying(relays)
    relaying.begin([LO, ETH])
    return relaying


def test_a_guest_is_told_everything_at_once_and_passed_on_to_the_own_networks_once() -> None:
    relaying = ready()
    heard = told(relaying, "relay")
    assert heard.alone == [(b"all of it", GUEST)]
    assert heard.group == [(passed_on(DATA), "lo"), (passed_on(DATA), "eth0")]
    assert told(relaying, "relay", 1.0).alone == []


def test_what_the_own_networks_say_is_passed_on_to_guests() -> None:
    relaying = ready()
    told(relaying, "relay")
    heard = told(relaying, "group", source=("10.0.0.8", 1))
    assert heard.alone == [(passed_on(DATA), GUEST)]
    assert heard.group == []


def test_guests_hear_of_each_other_but_not_of_themselves() -> None:
    relaying = ready()
    told(relaying, "relay")
    other = ("10.9.0.2", 4000)
    heard = told(relaying, "relay", source=other)
    assert heard.alone == [(b"all of it", other), (passed_on(DATA), GUEST)]


def test_what_was_passed_on_once_and_what_is_an_answer_goes_no_further() -> None:
    relaying = ready()
    told(relaying, "relay")
    for heard in (
        told(relaying, "group", data=passed_on(DATA)),
        told(relaying, "own"),
        told(relaying, "relay", data=passed_on(DATA)),
    ):
        assert (heard.group, heard.alone) == ([], [])


def test_a_guest_that_is_silent_gets_nothing_more() -> None:
    relaying = ready()
    told(relaying, "relay", 0.0)
    told(relaying, "group", GUEST_STAYS + 0.1)
    assert relaying.guests == []


def test_a_guest_that_is_silent_gets_nothing_more_where_nobody_else_is_heard() -> None:
    relaying = ready()
    told(relaying, "relay", 0.0)
    relaying.tick(GUEST_STAYS + 0.1)
    recorded = Recorded()
    relaying.said(recorded, b"mine", ETH)
    assert recorded.alone == []


def test_there_is_room_for_so_many_guests_and_no_more() -> None:
    relaying = ready()
    for number in range(MAX_GUESTS + 1):
        told(relaying, "relay", source=("10.9.0.1", number + 1))
    assert (len(relaying.guests), relaying.refused) == (MAX_GUESTS, 1)


def test_what_this_process_says_goes_to_relays_and_guests_of_the_interface() -> None:
    relaying = ready(("127.0.0.1", 4711))
    told(relaying, "relay")
    recorded = Recorded()
    relaying.said(recorded, b"mine", LO)
    assert recorded.alone == [(b"mine", ("127.0.0.1", 4711))]
    relaying.said(recorded, b"also", ETH)
    assert recorded.alone[1:] == [(b"also", GUEST)]


def test_a_relay_that_nobody_knows_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    relay = ("no-such-host.invalid", 1)
    relaying = ready(relay)
    for _ in range(2):
        relaying.miss(relay, "Name or service not known")
    recorded = Recorded()
    relaying.said(recorded, b"mine", LO)
    assert recorded.alone == []
    assert caplog.text.count("no-such-host.invalid") == 1


def test_a_process_without_entries_stays_a_guest_of_its_relay() -> None:
    guest = Announcer(b"p" * 16, 1, "", None, 0.0, lambda: 0.5, relayed=True)
    guest.reaches([Reach(2, ("10.0.0.7",))], 0.0)
    relaying, now = ready(), 0.0
    while now < 10 * GUEST_STAYS:
        assert relaying.guests or now == 0.0
        for outgoing in guest.due(now, now):
            assert isinstance(Reader(None).read(outgoing.data), Subscribe)
            told(relaying, "relay", now, data=outgoing.data)
        now = guest.next_deadline
        relaying.tick(now)
