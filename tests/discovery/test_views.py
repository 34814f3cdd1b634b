from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pzc.discovery.peers import View
from pzc.discovery.records import Advertise, Announcement, Heartbeat, Record, TopicRecord, Unadvertise, mixed

ROOM = 1000


def record(number: int, revision: int) -> TopicRecord:
    return TopicRecord(number, revision, 1, f"/{number}", "t", str(revision), "all", ())


class Teller:
    """A process that changes what it has and tells of it."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.revision = self.sequence = self.last = 0
        self.said: list[Announcement] = []

    def say(self, kind: type[Announcement], *rest: object) -> Announcement:
        self.sequence += 1
        digest = 0
        for each in self.records.values():
            digest ^= mixed(each.revision)
        head = b"p" * 16, 1, self.sequence, 0, "", 0, self.revision, len(self.records), digest
        self.said.append(kind(*head, *rest))
        return self.said[-1]

    def add(self) -> Announcement:
        self.last += 1
        return self.change(self.last)

    def change(self, number: int) -> Announcement:
        self.revision += 1
        self.records[number] = record(number, self.revision)
        return self.say(Advertise, (self.records[number],))

    def remove(self, number: int) -> Announcement:
        self.revision += 1
        del self.records[number]
        return self.say(Unadvertise, (number,))

    def whole(self, parts: int = 1) -> list[Announcement]:
        bounds = [self.last * n // parts for n in range(parts + 1)]
        return [
            self.say(Advertise, tuple(r for n, r in sorted(self.records.items()) if low < n <= high), low + 1, high)
            for low, high in pairwise(bounds)
        ]  # fmt: skip


def take(view: View, said: Announcement, room: int = ROOM) -> set[int]:
    view.is_news(said)
    return view.merge(said, room)


CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "change", "remove", "whole"]), st.integers(0, 9)), max_size=20
)


def tell(changes: list[tuple[str, int]]) -> Teller:
    teller = Teller()
    for change, pick in changes:
        numbers = sorted(teller.records)
        if change == "whole":
            teller.whole(pick % 3 + 1)
        elif change == "add" or not numbers:
            teller.add()
        elif change == "change":
            teller.change(numbers[pick % len(numbers)])
        else:
            teller.remove(numbers[pick % len(numbers)])
    return teller


@given(CHANGES, st.data())
def test_in_whatever_order_datagrams_come_the_whole_makes_it_true_and_older_ones_change_nothing(
    changes: list[tuple[str, int]], data: st.DataObject
) -> None:
    teller, view = tell(changes), View()
    for said in data.draw(st.lists(st.sampled_from(teller.said))) if teller.said else ():
        take(view, said)
    for said in data.draw(st.permutations(teller.whole(data.draw(st.integers(1, 4))))):
        take(view, said)
    assert view.records == teller.records
    assert view.complete
    for said in data.draw(st.permutations(teller.said)):
        assert take(view, said) == set()
    assert view.records == teller.records


@given(CHANGES)
def test_whoever_hears_everything_in_order_is_always_complete(changes: list[tuple[str, int]]) -> None:
    view = View()
    teller = tell(changes)
    for said in teller.said:
        take(view, said)
        if isinstance(said, Unadvertise) or (isinstance(said, Advertise) and said.first == 0):
            assert view.complete
    assert view.records == teller.records


@given(CHANGES, st.data())
def test_a_view_that_lacks_something_knows_it(changes: list[tuple[str, int]], data: st.DataObject) -> None:
    teller, view = tell(changes), View()
    for said in teller.said:
        if data.draw(st.booleans()):
            take(view, said)
    take(view, teller.say(Heartbeat))
    assert view.complete == (view.records == teller.records)


def test_a_removal_that_comes_before_what_it_removes_holds() -> None:
    teller, view = Teller(), View()
    take(view, teller.add())
    added, removed = teller.add(), teller.remove(2)
    teller.add()
    take(view, teller.say(Heartbeat))
    take(view, removed)
    assert not view.complete
    assert take(view, added) == set()


def test_an_entry_shown_again_after_it_was_hidden_is_taken() -> None:
    teller, view = Teller(), View()
    take(view, teller.add())
    removed = teller.remove(1)
    take(view, removed)
    assert take(view, teller.change(1)) == {1}
    assert view.complete
    assert take(view, removed) == set()


def test_a_late_datagram_is_no_news() -> None:
    teller, view = Teller(), View()
    first, second = teller.add(), teller.add()
    assert [view.is_news(said) for said in (second, first, second)] == [True, False, False]


def test_without_room_a_view_is_overfull_until_it_is_complete() -> None:
    teller, view = Teller(), View()
    teller.add()
    teller.add()
    (whole,) = teller.whole()
    assert take(view, whole, room=1) == {1}
    assert view.overfull
    assert take(view, teller.whole()[0], room=1) == {2}
    assert view.complete
    assert not view.overfull
