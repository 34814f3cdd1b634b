from __future__ import annotations

import dataclasses

import pytest

from pzc.discovery.directory import SILENCE, Directory
from pzc.discovery.events import Appeared, Conflict, Event, Vanished
from pzc.discovery.records import Advertise, Announcement, Entry

from tests.discovery.network import EPOCH, ETHERNET, SECRET, Network, Node, node_reach, said


def names(events: list[Event], kind: type[Event]) -> list[str]:
    return [event.entry.name for event in events if isinstance(event, kind)]


def pair() -> tuple[Network, Node, Node]:
    """Two processes on two hosts; the second one offers ``/psu`` and its topic, and both know it."""
    network = Network()
    reader, writer = network.start(0), network.start(1)
    writer.topic(writer.agent("/psu"), "voltage")
    network.run(1.0)
    assert names(events(reader), Appeared) == ["/psu", "/psu/voltage"]
    return network, reader, writer


def the_agent(reader: Node) -> Entry:
    """That of `pair`, as the other one knows it."""
    agent = reader.directory.find("/psu")
    assert agent is not None
    return agent


def events(node: Node) -> list[Event]:
    return [event for _, event in node.told]


@pytest.mark.parametrize("phase", [n / 20 for n in range(20)])
def test_entries_go_3_to_4_s_after_their_process_was_killed(phase: float) -> None:
    network, reader, writer = pair()
    network.run(phase)
    writer.alive = False
    killed = network.now
    network.run(6.0)
    gone = [when - killed for when, event in reader.told if event == Vanished(event.entry)]  # pyright: ignore[reportAttributeAccessIssue]
    assert len(gone) == 2
    assert all(3.0 <= after <= 4.0 for after in gone)


@pytest.mark.parametrize("phase", [n / 10 for n in range(10)])
def test_a_process_that_stands_still_for_2_s_loses_nothing(phase: float) -> None:
    network, reader, writer = pair()
    network.run(phase)
    writer.stopped_until = network.now + 2.0
    network.run(6.0)
    assert names(events(reader), Vanished) == []


def test_whoever_was_stopped_itself_takes_nobody_for_dead() -> None:
    network, reader, _ = pair()
    reader.stopped_until = network.now + 10.0
    network.run(12.0)
    assert names(events(reader), Vanished) == []


def test_nobody_was_silent_while_this_process_stood_still() -> None:
    network, reader, writer = pair()
    writer.alive = False
    reader.directory.excuse(10.0)
    network.run(10.0)
    assert names(events(reader), Vanished) == []
    network.run(SILENCE)
    assert len(names(events(reader), Vanished)) == 2


def test_a_process_that_says_goodbye_is_gone_at_once() -> None:
    network, reader, writer = pair()
    network.send(writer, writer.announcer.bye(network.wall))
    writer.alive = False
    network.run(0.0)
    assert [event for event in events(reader)[-2:] if isinstance(event, Vanished)] == [
        Vanished(entry) for entry in (events(reader)[0].entry, events(reader)[1].entry)  # pyright: ignore[reportAttributeAccessIssue]
    ]  # fmt: skip
    assert reader.directory.processes() == []


def test_what_was_said_before_a_goodbye_and_comes_after_it_is_too_late() -> None:
    network, reader, writer = pair()
    late = said(writer)
    (goodbye, *_) = [reader.reader.read(each.data) for each in writer.announcer.bye(network.wall)]
    assert isinstance(goodbye, Announcement)
    assert len(reader.directory.take(goodbye, "multicast", network.now, network.wall)) == 2
    for read in late:
        assert reader.directory.take(read, "multicast", network.now, network.wall) == []
    assert reader.directory.processes() == []


def test_what_a_gone_process_once_said_does_not_bring_it_back() -> None:
    network, reader, writer = pair()
    for end in (lambda: network.send(writer, writer.announcer.bye(network.wall)), lambda: None):
        end()
        writer.alive = False
        network.run(5.0)
        told = len(reader.told)
        for view, data in network.heard:
            reader.receive(view, data)
        assert len(reader.told) == told
        assert reader.directory.counters["old"] > 0


def test_what_a_live_process_once_said_changes_nothing_and_keeps_nothing_alive() -> None:
    network, reader, writer = pair()
    topic = writer.topic(the_agent(reader), "current")
    network.run(1.0)
    writer.announcer.remove(topic.number, network.now)
    network.run(1.0)
    old = len(network.heard)
    network.run(4.0)
    for _, data in network.heard[:old]:
        said_again = reader.reader.read(data)
        assert isinstance(said_again, Announcement)
        assert reader.directory.take(said_again, "relay", network.now, network.wall) == []
    told = len(reader.told)
    recorded = [datagram for datagram in network.heard[:old] if datagram[0] == ETHERNET]
    for view, data in recorded:
        reader.receive(view, data)
    assert len(reader.told) == told
    writer.alive = False
    killed = network.now
    while network.now < killed + 5.0:
        network.run(0.1)
        for view, data in recorded:
            reader.receive(view, data)
    assert reader.known == {}


def test_a_directory_that_starts_later_does_not_take_old_datagrams_for_new() -> None:
    network, _, writer = pair()
    recorded = list(network.heard)
    writer.alive = False
    network.run(31.0)
    newcomer = network.start(2)
    for view, data in recorded:
        newcomer.receive(view, data)
    assert newcomer.known == {}
    assert newcomer.directory.counters["skewed"] > 0


def test_without_a_key_a_clock_that_is_wrong_by_days_is_no_obstacle() -> None:
    network = Network()
    writer = network.start(1, key=None)
    writer.agent("/psu")
    directory = Directory("", b"r" * 16, lambda: 0.5)
    for read in said(writer):
        directory.take(read, "multicast", 0.0, EPOCH + 1_000_000)
    assert directory.find("/psu") is not None


def test_a_late_process_learns_what_was_said_before_it_came() -> None:
    network, _, _ = pair()
    network.run(10.0)
    late = network.start(2)
    network.run(1.5)
    assert names(events(late), Appeared) == ["/psu", "/psu/voltage"]


def test_a_change_that_was_lost_is_asked_for() -> None:
    network, reader, writer = pair()
    network.islands[0] = 1
    writer.announcer.remove(2, network.now)
    writer.topic(the_agent(reader), "current")
    network.run(1.0)
    network.islands.clear()
    assert "/psu/voltage" in [entry.name for entry in reader.known.values()]
    network.run(1.5)
    assert sorted(entry.name for entry in reader.known.values()) == ["/psu", "/psu/current"]


def test_the_addresses_of_all_ways_are_known_and_those_of_a_silent_way_go() -> None:
    network = Network()
    neighbour, writer = network.start(1), network.start(1)
    writer.agent("/psu", endpoint="tcp://0.0.0.0:5000")
    network.run(0.5)
    (entry,) = neighbour.known.values()
    assert entry.addresses == ("tcp://127.0.0.1:5000", "tcp://10.0.0.2:5000")
    writer.announcer.reaches([node_reach(writer)], network.now)
    network.run(4.5)
    (entry,) = neighbour.known.values()
    assert entry.addresses == ("tcp://10.0.0.2:5000",)
    assert names(events(neighbour), Vanished) == []


def test_a_topic_has_the_new_addresses_of_its_agent() -> None:
    network, reader, writer = pair()
    agent = the_agent(reader)
    writer.announcer.change(dataclasses.replace(agent, addresses=("tcp://0.0.0.0:6000",)), network.now)
    network.run(0.0)
    assert {entry.addresses for entry in reader.known.values()} == {("tcp://10.0.0.2:6000",)}


def test_a_topic_is_not_known_before_its_agent() -> None:
    network = Network()
    writer = network.start(1)
    writer.topic(writer.agent("/psu"), "u")
    _, whole = said(writer)
    directory = Directory("", b"r" * 16, lambda: 0.5)
    head = {field: getattr(whole, field) for field in Announcement.__struct_fields__}
    agent, topic = whole.records  # pyright: ignore[reportAttributeAccessIssue]
    first = directory.take(Advertise(**head, records=(topic,)), "multicast", 0.0, EPOCH)
    second = directory.take(Advertise(**head, records=(agent,)), "multicast", 0.0, EPOCH)
    assert (names(first, Appeared), names(second, Appeared)) == ([], ["/psu", "/psu/u"])


def test_two_live_agents_with_one_name_are_a_conflict_and_the_newer_one_counts() -> None:
    network, reader, writer = pair()
    other = network.start(2)
    newer = other.agent("/psu")
    network.run(2.0)
    conflicts = [event for event in events(reader) if isinstance(event, Conflict)]
    assert [(each.entry.agent, each.other.process) for each in conflicts] == [(newer.agent, writer.process)]
    assert reader.directory.find("/psu").agent == newer.agent  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("seed", range(8))
def test_whoever_asks_for_a_name_that_two_hold_hears_of_the_newer_agent_first(seed: int) -> None:
    network = Network(seed)
    for node in (network.start(0), network.start(1)):
        agent = node.agent("/psu")
        node.directory.put(agent)
        network.run(1.0)
    asking = network.start(2)
    asking.announcer.ask(["/psu"])
    network.run(0.15)
    heard = [event.entry.agent for event in events(asking) if isinstance(event, Appeared)]
    assert heard[:1] == [agent.agent]


def test_an_agent_that_was_killed_and_started_again_is_no_conflict() -> None:
    network, reader, writer = pair()
    writer.alive = False
    network.run(0.5)
    again = network.start(1).agent("/psu")
    network.run(6.0)
    assert not [event for event in events(reader) if isinstance(event, Conflict)]
    assert [entry.agent for entry in reader.known.values()] == [again.agent]


def test_the_first_agent_of_a_restarted_process_is_found_at_once() -> None:
    network, reader, writer = pair()
    writer.alive = False
    again = network.start(1).agent("/psu")
    network.run(0.1)
    assert reader.directory.find("/psu", "agent").agent == again.agent  # pyright: ignore[reportOptionalMemberAccess]


def test_what_the_deployment_states_counts_before_what_is_heard() -> None:
    _, reader, _ = pair()
    static = Entry("agent", "/psu", addresses=("tcp://10.9.9.9:1",))
    assert reader.directory.put(static) == [Appeared(static)]
    assert reader.directory.find("/psu") == static
    assert reader.directory.drop(static) == [Vanished(static)]
    assert reader.directory.find("/psu").number == 1  # pyright: ignore[reportOptionalMemberAccess]


def test_an_own_entry_with_the_name_of_another_agent_is_a_conflict() -> None:
    network, reader, _ = pair()
    reader.log(reader.directory.put(reader.agent("/psu")))
    network.run(1.5)
    assert [type(event) for event in events(reader)].count(Conflict) == 1


def test_a_later_epoch_of_a_process_replaces_it_and_an_earlier_one_is_old() -> None:
    network, reader, writer = pair()
    read = said(writer)[0]
    fields = {field: getattr(read, field) for field in Announcement.__struct_fields__}
    later = type(read)(**{**fields, "epoch": EPOCH + 1, "count": 0, "digest": 0, "sequence": 1})
    told = reader.directory.take(later, "multicast", network.now, network.wall)
    assert told == [Vanished(event.entry) for event in told]  # pyright: ignore[reportAttributeAccessIssue]
    assert len(told) == 2
    assert reader.directory.take(read, "multicast", network.now, network.wall) == []
    assert reader.directory.counters["old"] == 1


def test_own_datagrams_and_those_of_other_partitions_are_counted_only() -> None:
    network, _, writer = pair()
    read = said(writer)[0]
    for directory, what in (
        (writer.directory, "own"),
        (Directory("sim", b"r" * 16, lambda: 0.5), "other_partition"),
    ):
        before = directory.counters.get(what, 0)
        assert directory.take(read, "multicast", network.now, network.wall) == []
        assert directory.counters[what] == before + 1
        assert directory.processes() == []


def test_what_a_silent_registry_told_is_kept_for_30_s() -> None:
    network = Network()
    writer = network.start(1)
    writer.agent("/psu")
    directory = Directory("", b"r" * 16, lambda: 0.5)
    for read in said(writer):
        directory.take(read, "registry", 0.0, EPOCH)
    (entry,) = directory.match("*")
    directory.hold(3.0)
    directory.hold(4.0)
    assert directory.tick(32.9) == []
    assert directory.tick(33.0) == [Vanished(entry)]


def test_what_a_registry_told_stays_while_it_answers_and_says_nothing_else() -> None:
    network = Network()
    writer = network.start(1)
    writer.agent("/psu")
    directory = Directory("", b"r" * 16, lambda: 0.5)
    for read in said(writer):
        directory.take(read, "registry", 0.0, EPOCH)
    assert directory.next_deadline is None
    directory.hold(3.0)
    directory.trust()
    assert directory.tick(1e9) == []


def test_what_a_restarted_registry_tells_again_stays() -> None:
    network = Network()
    writer = network.start(1)
    writer.agent("/psu")
    directory = Directory("", b"r" * 16, lambda: 0.5)
    for heard in (0.0, 4.0):
        for read in said(writer):
            directory.take(read, "registry", heard, EPOCH)
        if not heard:
            directory.hold(3.0)
    assert directory.tick(1e9) == []


def test_what_is_heard_on_the_network_too_stays_when_the_registry_says_that_it_is_gone() -> None:
    network, reader, writer = pair()
    for read in said(writer):
        reader.log(reader.directory.take(read, "registry", network.now, network.wall))
    assert reader.directory.processes()[0].sources == ("multicast", "registry")
    assert reader.directory.lost(writer.process) == []
    assert len(reader.known) == 2


def test_what_only_the_registry_told_goes_when_it_says_so() -> None:
    network = Network()
    writer = network.start(1)
    writer.agent("/psu")
    directory = Directory("", b"r" * 16, lambda: 0.5)
    for read in said(writer):
        directory.take(read, "registry", 0.0, EPOCH)
    (entry,) = directory.match("*")
    assert directory.lost(writer.process) == [Vanished(entry)]
    assert directory.next_deadline is None


def test_no_more_processes_and_entries_are_held_of_one_key_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pzc.discovery.directory.PROCESSES", 2)
    monkeypatch.setattr("pzc.discovery.directory._ENTRIES", 3)
    network = Network()
    directory = Directory("", b"r" * 16, lambda: 0.5)
    for host in range(3):
        node = network.start(host)
        agent = node.agent(f"/{host}")
        node.topic(agent, "t")
        for read in said(node):
            directory.take(read, "multicast", 0.0, EPOCH)
    assert (len(directory.processes()), len(directory)) == (2, 3)
    assert directory.counters == {"entries_full": 1, "processes_full": 2}
    assert directory.asks(1.0) == []


def test_unsigned_and_foreign_datagrams_change_nothing_but_counters() -> None:
    network, reader, _ = pair()
    before = dict(reader.known)
    stranger = Network().start(1, key=None)
    stranger.agent("/psu")
    for outgoing in stranger.work():
        reader.receive(outgoing.view, outgoing.data)
    assert (reader.known, reader.reader.refused["unsigned"] > 0) == (before, True)
    assert SECRET.key_id not in repr(reader.reader.last)
    assert network.now == 1.0
