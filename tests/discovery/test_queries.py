from __future__ import annotations

import itertools

import pytest

from pzc.discovery.directory import Directory
from pzc.discovery.records import Announcement

from tests.discovery.network import EPOCH, Network, said


def test_an_ask_is_repeated_until_the_answer_comes() -> None:
    directory = Directory("", b"r" * 16, lambda: 0.5)
    network = Network()
    writer = network.start(1)
    writer.agent("/psu")
    heartbeat, whole = said(writer)
    directory.take(heartbeat, "multicast", 0.0, EPOCH)
    asked = [n / 20 for n in range(100) if directory.asks(n / 20) == [writer.process]]
    assert [round(time, 1) for time in asked[:4]] == pytest.approx([0.1, 0.4, 0.9, 1.9], abs=0.11)
    directory.take(whole, "multicast", 5.0, EPOCH)
    assert [directory.asks(5 + n / 20) for n in range(60)] == [[]] * 60


def test_asks_of_others_put_off_an_ask_by_two_and_a_half_seconds_at_most() -> None:
    network = Network()
    reader, writer, other = (network.start(host) for host in (0, 1, 2))
    writer.agent("/psu")
    reader.directory.take(said(writer)[0], "multicast", 0.0, EPOCH)
    asked: list[float] = []
    for now in [n / 10 for n in range(100)]:
        other.announcer.ask_processes([writer.process])
        for outgoing in other.announcer.due(now, EPOCH):
            ask = reader.reader.read(outgoing.data)
            assert isinstance(ask, Announcement)
            reader.directory.take(ask, "multicast", now, EPOCH)
        asked += [now for process in reader.directory.asks(now) if process == writer.process]
    pauses = [later - sooner for sooner, later in itertools.pairwise([0.0, *asked])]
    assert len(pauses) >= 3
    assert max(pauses) < 2.65
