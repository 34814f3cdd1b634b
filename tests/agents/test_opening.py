"""A subscription that begins with what was kept, in any order of what arrives and what is answered."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from pzc import Gap, Notification
from pzc.agents.notifications.links.arrivals import Arrival, arrival_of
from pzc.agents.notifications.opening import MAX_HELD, Opening

EPOCH = 7


def _entry(number: int, epoch: int = EPOCH, topic: str = "t") -> Arrival:
    return arrival_of(Notification("p", "", topic, "", number, epoch, 0.0, 0.0, None))


def _numbers(entries: Sequence[Arrival | Gap]) -> list[int]:
    found: list[int] = []
    for each in entries:
        found += range(each.first, each.last + 1) if isinstance(each, Gap) else [each.sequence]
    return found


@given(st.data(), st.integers(0, 20), st.integers(0, 20), st.lists(st.booleans(), max_size=20))
def test_exactly_what_is_numbered_behind_the_answer_is_handed_on_in_order(
    data: st.DataObject, first: int, last: int, arrives: list[bool]
) -> None:
    """Each number behind ``first`` arrives or is lost; somewhere between them the publisher says ``last``."""
    opening, handed = Opening("t"), list[Arrival | Gap]()
    done = list[Arrival]()
    told = data.draw(st.integers(0, len(arrives)))

    def tell() -> None:
        opening.tell(EPOCH, {"t": last})
        while opening.waiting:
            found, refused = opening.take()
            handed.extend(found)
            done.extend(refused)

    numbers = list(range(first + 1, first + 1 + len(arrives)))
    for place, (number, arrived) in enumerate(zip(numbers, arrives, strict=True)):
        if place == told:
            tell()
        if opening.over:
            handed.append(_entry(number) if arrived else Gap(EPOCH, number, number))
        elif arrived:
            found, refused = opening.sift([_entry(number)])
            handed.extend(found)
            done.extend(refused)
        else:
            gap = opening.sift_gap(Gap(EPOCH, number, number))
            handed.extend([] if gap is None else [gap])
    if told == len(arrives):
        tell()
    assert _numbers(handed) == [number for number in numbers if number > last]
    lost = [n for n, arrived in zip(numbers, arrives, strict=True) if not arrived and n > last]
    assert _numbers([each for each in handed if isinstance(each, Gap)]) == lost
    old = [n for n, arrived in zip(numbers, arrives, strict=True) if arrived and n <= last]
    assert _numbers(done) == old


def test_it_is_over_with_the_first_one_behind_the_answer() -> None:
    opening = Opening("t")
    opening.tell(EPOCH, {"t": 3})
    assert opening.take() == ([], [])
    assert _numbers(opening.sift([_entry(3)])[1]) == [3]
    assert not opening.over
    assert _numbers(opening.sift([_entry(4)])[0]) == [4]
    assert opening.over


def test_of_all_topics_each_is_judged_by_its_own_number() -> None:
    opening = Opening("*")
    opening.tell(EPOCH, {"t": 3, "u": 1})
    opening.take()
    found, refused = opening.sift([_entry(2), _entry(2, topic="u"), _entry(1, topic="new"), _entry(4)])
    assert (_numbers(found), _numbers(refused)) == ([2, 1, 4], [2])
    assert not opening.over


def test_another_start_of_the_publisher_is_judged_by_nothing() -> None:
    opening = Opening("t")
    opening.tell(EPOCH, {"t": 100})
    opening.take()
    assert opening.sift_gap(Gap(EPOCH + 1, 0, 0, restarted=True)) is not None
    assert _numbers(opening.sift([_entry(1, EPOCH + 1)])[0]) == [1]


def test_a_gap_over_the_last_number_is_told_from_there() -> None:
    opening = Opening("t")
    opening.sift_gap(Gap(EPOCH, 2, 9))
    opening.tell(EPOCH, {"t": 5})
    assert opening.take() == ([Gap(EPOCH, 6, 9)], [])


def test_too_many_are_lost_and_counted() -> None:
    opening = Opening("t")
    found, refused = opening.sift([_entry(number) for number in range(1, MAX_HELD + 4)])
    assert (found, _numbers(refused)) == ([], [MAX_HELD + 1, MAX_HELD + 2, MAX_HELD + 3])
    opening.tell(EPOCH, {"t": MAX_HELD})
    assert opening.take()[0] == [Gap(EPOCH, MAX_HELD + 1, MAX_HELD + 3)]


def test_what_was_kept_back_is_given_back_at_the_end() -> None:
    opening = Opening("t")
    opening.sift([_entry(1)])
    opening.sift_gap(Gap(EPOCH, 2, 2))
    assert _numbers(opening.end()) == [1]
