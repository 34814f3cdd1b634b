from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from pzc.discovery.announcer import BUCKET, RATE, UDP, Announcer
from pzc.discovery.datagrams import MAX_DATAGRAM, Reader
from pzc.discovery.outbox import Outgoing
from pzc.discovery.reach import REGISTRY_VIEW, Reach
from pzc.discovery.records import Advertise, Announcement, Bye, Entry, Heartbeat, Subscribe, Unadvertise
from pzc.protocol.errors import ConfigError, LocalProtocolError

LOOPBACK, ETHERNET = Reach(0, ("127.0.0.1",), True), Reach(2, ("10.0.0.7",))
PROCESS = b"p" * 16
PSU = Entry(
    "service", "/psu", agent="3f2a", addresses=("tcp://0.0.0.0:5000",), pub_addresses=("tcp://0.0.0.0:5001",)
)


def announcer(*reaches: Reach, chance: float = 0.5) -> Announcer:
    made = Announcer(PROCESS, 1, "", None, 0.0, lambda: chance)
    made.reaches(reaches or (ETHERNET,), 0.0)
    return made


def read(outgoing: list[Outgoing]) -> list[Announcement]:
    found = [Reader(None).read(each.data) for each in outgoing]
    assert all(isinstance(each, Announcement) for each in found)
    return [each for each in found if isinstance(each, Announcement)]


def advertised(said: list[Announcement]) -> list[str]:
    return [record.name for each in said if isinstance(each, Advertise) for record in each.records]


def run(one: Announcer, end: float, begin: float = 0.0) -> list[tuple[float, Announcement]]:
    """All that is said until ``end``, with its time."""
    found, now = list[tuple[float, Announcement]](), begin
    while now <= end:
        found += [(now, said) for said in read(one.due(now, now))]
        now = max(now, one.next_deadline)
    return found


def ask(patterns: tuple[str, ...] = (), processes: tuple[bytes, ...] = ()) -> Subscribe:
    return Subscribe(b"a" * 16, 1, 1, 0, "", 0, 0, 0, 0, patterns, processes)


def quiet(one: Announcer) -> float:
    """Let an announcer say what it has to; the time when it has."""
    run(one, 5.0)
    return 5.0


def test_a_new_entry_is_said_three_times_within_0_3_s() -> None:
    one = announcer()
    one.add(PSU, 0.0)
    said = [time for time, each in run(one, 3.0) if isinstance(each, Advertise)]
    assert said == pytest.approx([0.0, 0.1, 0.3])


def test_a_heartbeat_comes_each_0_9_to_0_94_s() -> None:
    for chance in (0.0, 0.999):
        one = announcer(chance=chance)
        one.add(PSU, 0.0)
        beats = [time for time, each in run(one, 10.0) if isinstance(each, Heartbeat)]
        pauses = [after - before for before, after in pairwise(beats)]
        assert all(0.9 - 1e-9 <= pause <= 0.94 for pause in pauses)
        assert len(pauses) >= 9


def test_a_process_without_entries_says_nothing() -> None:
    one = announcer()
    assert one.due(0.0, 0.0) == []
    assert one.next_deadline == math.inf
    one.add(dataclasses.replace(PSU, scope="process"), 0.0)
    assert one.due(0.0, 0.0) == []


def test_a_withdrawn_agent_goes_with_its_topics() -> None:
    one = announcer()
    agent = one.add(PSU, 0.0)
    one.add(Entry("topic", "/psu/u", publisher=agent.number, topic="u"), 0.0)
    now = quiet(one)
    one.remove(agent.number, now)
    gone = [each for _, each in run(one, now + 2.0, now) if isinstance(each, Unadvertise)]
    assert [(each.numbers, each.count, each.digest) for each in gone] == [((1, 2), 0, 0)] * 3
    one.remove(agent.number, now)


def test_what_is_withdrawn_before_it_was_said_is_never_said() -> None:
    one = announcer()
    one.remove(one.add(PSU, 0.0).number, 0.0)
    assert advertised([each for _, each in run(one, 2.0)]) == []


def test_an_entry_is_said_as_it_is_then() -> None:
    one = announcer()
    agent = one.add(PSU, 0.0)
    one.due(0.0, 0.0)
    one.change(dataclasses.replace(agent, name="/dmm"), 0.05)
    assert set(advertised([each for _, each in run(one, 2.0, 0.05)])) == {"/dmm"}


def test_each_way_has_its_own_addresses_and_what_is_for_the_host_stays_there() -> None:
    one = announcer(LOOPBACK, ETHERNET)
    one.add(PSU, 0.0)
    one.add(dataclasses.replace(PSU, name="/here", scope="host"), 0.0)
    one.add(dataclasses.replace(PSU, name="/mine", scope="process"), 0.0)
    one.add(dataclasses.replace(PSU, name="/local", addresses=("tcp://127.0.0.1:1",)), 0.0)
    outgoing = one.due(0.0, 0.0)
    names = {view: advertised(read([each for each in outgoing if each.view == view])) for view in (0, 2)}
    assert names == {0: ["/psu", "/here", "/local"], 2: ["/psu"]}
    assert b"127.0.0.1" not in b"".join(each.data for each in outgoing if each.view == 2)
    assert b"/mine" not in b"".join(each.data for each in outgoing)


def test_a_topic_is_said_only_where_its_agent_is() -> None:
    one = announcer(ETHERNET)
    agent = one.add(dataclasses.replace(PSU, scope="host"), 0.0)
    topic = one.add(Entry("topic", "/psu/u", publisher=agent.number, topic="u"), 0.0)
    assert one.due(0.0, 0.0) == []
    one.change(dataclasses.replace(agent, scope="all"), 1.0)
    assert advertised(read(one.due(1.0, 1.0))) == ["/psu", topic.name]


@pytest.mark.parametrize("patterns", [("/psu",), ("/psu", "ps*"), ("psu",), ("**",)])
def test_a_name_that_is_asked_for_is_said_within_50_ms(patterns: tuple[str, ...]) -> None:
    one = announcer(chance=0.99)
    one.add(PSU, 0.0)
    now = quiet(one)
    one.hear(ask(patterns), 2, now)
    said = [time for time, each in run(one, now + 1.0, now) if isinstance(each, Advertise)]
    assert len(said) == 1
    assert now <= said[0] <= now + 0.05


def test_a_topic_that_is_asked_for_comes_with_its_agent() -> None:
    one = announcer()
    agent = one.add(PSU, 0.0)
    for name in ("u", "i"):
        one.add(Entry("topic", f"/psu/{name}", publisher=agent.number, topic=name), 0.0)
    now = quiet(one)
    one.hear(ask(("/psu/u",)), 2, now)
    assert advertised([each for _, each in run(one, now + 0.1, now)]) == ["/psu", "/psu/u"]


def test_what_nobody_here_has_is_not_answered() -> None:
    one = announcer()
    one.add(PSU, 0.0)
    now = quiet(one)
    one.hear(ask(("/dmm",), (b"x" * 16,)), 2, now)
    one.hear(ask(("/psu",)), 7, now)
    assert not [each for _, each in run(one, now + 0.5, now) if not isinstance(each, Heartbeat)]


def test_many_who_ask_at_once_get_one_answer() -> None:
    one = announcer()
    one.add(PSU, 0.0)
    now = quiet(one)
    for n in range(100):
        one.hear(ask(("/psu",), (PROCESS,)), 2, now + n * 0.0001)
    answers = [each for _, each in run(one, now + 0.5, now + 0.01) if isinstance(each, Advertise)]
    assert len(answers) <= 2


def test_everything_is_said_in_spans_without_a_hole() -> None:
    one = announcer()
    agent = one.add(PSU, 0.0)
    topics = [
        one.add(Entry("topic", f"/psu/{n}", publisher=agent.number, topic="t"), 0.0) for n in range(200)
    ]
    for topic in topics[::3]:
        one.remove(topic.number, 0.0)
    now = quiet(one)
    one.hear(ask(processes=(PROCESS,)), 2, now)
    parts = [each for _, each in run(one, now + 0.1, now) if isinstance(each, Advertise)]
    assert [part.first for part in parts] == [1, *(part.last + 1 for part in parts[:-1])]
    assert parts[-1].last == 201
    assert len(advertised([*parts])) == 201 - 67
    assert all(part.first <= record.number <= part.last for part in parts for record in part.records)


def test_a_burst_is_bounded_and_what_waits_is_said_later() -> None:
    one = announcer()
    agent = one.add(PSU, 0.0)
    for n in range(2000):
        one.add(Entry("topic", f"/psu/{n}", publisher=agent.number, topic=f"{n}"), 0.0)
    said, begin = set[str](), one.sent
    now = 0.0
    while now < 60:
        said |= set(advertised(read(one.due(now, now))))
        assert one.sent - begin <= BUCKET + RATE * now + 60 * 200
        now = max(now, one.next_deadline)
    assert len(said) == 2001


def test_with_100_topics_a_process_says_less_than_10_kb_per_second() -> None:
    one = announcer(LOOPBACK, ETHERNET)
    agent = one.add(PSU, 0.0)
    for n in range(100):
        one.add(Entry("topic", f"/psu/{n}", publisher=agent.number, topic=f"{n}"), 0.0)
    now = quiet(one)
    before = one.sent
    run(one, now + 10.0, now)
    assert 0 < one.sent - before <= 10_000


def test_names_and_processes_are_asked_for_on_every_way_at_once() -> None:
    one = announcer(LOOPBACK, ETHERNET)
    one.ask(["/psu", "dmm*", "/a", "/b"])
    one.ask_processes([bytes([n]) * 16 for n in range(40)])
    said = read(one.due(1.0, 1.0))
    assert [len(each.patterns) for each in said if isinstance(each, Subscribe)] == [3, 3, 1, 1, 0, 0, 0, 0]
    assert sum(len(each.processes) for each in said if isinstance(each, Subscribe)) == 2 * 40
    assert one.due(1.0, 1.0) == []


def test_the_longest_names_that_are_asked_for_fit_into_a_datagram() -> None:
    one = announcer()
    one.ask([f"/{n}{'n' * 253}" for n in range(9)])
    one.ask_processes([bytes([n]) * 16 for n in range(99)])
    assert all(len(each.data) <= MAX_DATAGRAM - UDP for each in one.due(1.0, 1.0))


def test_what_is_no_pattern_is_not_asked_for() -> None:
    with pytest.raises(ConfigError):
        announcer().ask(["a b"])


def test_an_announcer_that_ends_says_so_twice_and_then_nothing() -> None:
    one = announcer(LOOPBACK, ETHERNET)
    one.add(PSU, 0.0)
    one.due(0.0, 0.0)
    assert [type(each) for each in read(one.bye(1.0))] == [Bye] * 4
    assert (one.due(2.0, 2.0), one.bye(2.0), one.next_deadline) == ([], [], math.inf)


def test_sequences_rise_with_every_datagram() -> None:
    one = announcer(LOOPBACK, ETHERNET)
    one.add(PSU, 0.0)
    sequences = [said.sequence for _, said in run(one, 5.0)]
    assert sequences == list(range(1, len(sequences) + 1))


def test_other_interfaces_are_told_everything_under_new_revisions() -> None:
    one = announcer(ETHERNET)
    one.add(PSU, 0.0)
    now = quiet(one)
    before = read(one.due(now, now))
    one.reaches([ETHERNET], now)
    assert one.due(now, now) == []
    one.reaches([dataclasses.replace(ETHERNET, addresses=("10.0.0.8",))], now)
    (advertise,) = [each for each in read(one.due(now, now)) if isinstance(each, Advertise)]
    (record,) = advertise.records
    assert record.addresses == ("tcp://10.0.0.8:5000",)  # pyright: ignore[reportAttributeAccessIssue]
    assert (advertise.first, record.revision) == (1, 2)
    assert all(each.revision == 1 for each in before)


def test_what_a_registry_is_told_has_a_new_revision_with_other_addresses() -> None:
    one = announcer()
    one.add(PSU, 0.0)
    wholes: list[list[Announcement]] = []
    for address in ("10.0.0.7", "10.0.0.7", "10.0.0.8"):
        reach = Reach(REGISTRY_VIEW, (address,))
        one.reaches([], 0.0, reach)
        wholes.append(read([Outgoing(0, data) for data in one.whole(reach, 0.0)]))
    revisions = [whole[0].revision for whole in wholes]
    assert revisions[0] == revisions[1] < revisions[2]


def test_the_whole_begins_with_a_heartbeat_that_it_fulfils() -> None:
    one = announcer(LOOPBACK)
    agent = one.add(PSU, 0.0)
    one.add(Entry("topic", "/psu/u", publisher=agent.number, topic="u"), 0.0)
    whole = one.whole(ETHERNET, 0.0)
    heartbeat, advertise = read([Outgoing(0, data) for data in whole])
    assert isinstance(heartbeat, Heartbeat)
    assert (heartbeat.count, heartbeat.view) == (2, 2)
    assert advertised([advertise]) == ["/psu", "/psu/u"]


@pytest.mark.parametrize(
    "entry",
    [
        dataclasses.replace(PSU, name="psu"),
        dataclasses.replace(PSU, host="a\nb"),
        Entry("topic", "/psu/u", publisher=7, topic="u"),
    ],
)
def test_an_entry_that_others_would_refuse_is_refused_here_and_changes_nothing(entry: Entry) -> None:
    one = announcer()
    with pytest.raises(LocalProtocolError):
        one.add(entry, 0.0)
    assert one.add(PSU, 0.0).number == 1
    with pytest.raises(LocalProtocolError):
        one.change(dataclasses.replace(entry, number=1), 0.0)
    whole = [Outgoing(0, each) for each in one.whole(ETHERNET, 0.0)]
    assert advertised(read(whole)) == ["/psu"]


def test_nothing_changes_under_a_number_that_was_not_given() -> None:
    with pytest.raises(LocalProtocolError, match="number 5 was not given"):
        announcer().change(dataclasses.replace(PSU, number=5), 0.0)


def functions(act: Callable[[], object]) -> int:
    """How many Python functions are called."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def test_what_is_done_each_second_does_not_depend_on_the_topics() -> None:
    seen: set[tuple[int, int]] = set()
    for topics in (3, 300):
        one = announcer(LOOPBACK, ETHERNET)
        agent = one.add(PSU, 0.0)
        for number in range(topics):
            one.add(Entry("topic", f"/psu/{number}", publisher=agent.number, topic=str(number)), 0.0)
        quiet(one)
        one.beat(ETHERNET, 0.0)
        at = one.next_deadline
        seen.add((functions(partial(one.due, at, at)), functions(partial(one.beat, ETHERNET, at))))
    assert len(seen) == 1


def test_a_heartbeat_for_a_reach_tells_what_the_whole_says_there() -> None:
    one = announcer(LOOPBACK)
    agent = one.add(PSU, 0.0)
    for number in range(2):
        beat, whole = (
            read([Outgoing(0, each) for each in said(ETHERNET, 0.0)]) for said in (one.beat, one.whole)
        )
        assert (beat[0].count, beat[0].digest) == (whole[0].count, whole[0].digest)
        assert isinstance(beat[0], Heartbeat)
        assert beat[0].count == number + 1
        one.add(Entry("topic", "/psu/v", publisher=agent.number, topic="v"), 1.0)
