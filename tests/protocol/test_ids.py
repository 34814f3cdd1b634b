from __future__ import annotations

import copy
import pickle
import threading
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.errors import FrameError, LocalProtocolError
from pzc.protocol.ids import MessageIds, Stamp, is_urn, parse_hex, parse_urn

NOW = 1_700_000_000_000
times = st.integers(0, 2**48 - 1)
counters = st.integers(0, 2**41 - 1)
epochs = st.integers(0, 2**32 - 1)
any_stamps = st.builds(Stamp, times, st.integers(0, 2**42 - 1), epochs)


@given(times, counters, epochs)
def test_an_id_tells_its_time_counter_and_epoch(ms: int, counter: int, epoch: int) -> None:
    ids = MessageIds(epoch, counter)
    assert parse_urn(ids.next_urn(ms)) == Stamp(ms, counter, epoch)
    assert parse_hex(ids.next(ms).hex()) == Stamp(ms, counter + 1, epoch)


@given(times, counters, epochs)
def test_an_id_is_a_uuid_of_version_8_in_canonical_form(ms: int, counter: int, epoch: int) -> None:
    urn = MessageIds(epoch, counter).next_urn(ms)
    value = uuid.UUID(urn)
    assert (value.version, value.variant, value.urn) == (8, uuid.RFC_4122, urn)


@given(any_stamps)
def test_a_stamp_is_read_back_from_both_of_its_texts(stamp: Stamp) -> None:
    assert parse_hex(stamp.hex()) == parse_urn(stamp.urn()) == stamp
    assert stamp.urn() == stamp.urn_frame().decode() == uuid.UUID(stamp.hex()).urn


@given(times, counters, epochs)
def test_stamps_and_texts_come_from_one_count(ms: int, counter: int, epoch: int) -> None:
    ids = MessageIds(epoch, counter)
    drawn = [ids.next(ms), parse_hex(ids.next(ms).hex()), parse_urn(ids.next_urn(ms))]
    assert drawn == [Stamp(ms, counter + step, epoch) for step in range(3)]


@given(any_stamps, st.integers(0, 44), st.characters(max_codepoint=0x2FF))
def test_a_urn_with_one_other_character_is_refused_or_another_id(
    stamp: Stamp, place: int, letter: str
) -> None:
    urn = stamp.urn()
    changed = urn[:place] + letter + urn[place + 1 :]
    try:
        found = parse_urn(changed)
    except FrameError:
        return
    assert found.urn() == changed


def test_an_id_holds_its_parts_where_the_table_says() -> None:
    value = uuid.UUID(MessageIds(0x89ABCDEF, 0x1_2345_6789A).next_urn(0x0123456789AB)).int
    assert value >> 80 == 0x0123456789AB
    assert (value >> 64 & 0xFFF) << 30 | (value >> 32 & 0x3FFFFFFF) == 0x1_2345_6789A
    assert value & 0xFFFFFFFF == 0x89ABCDEF


@given(st.lists(times, min_size=2, max_size=50), counters)
def test_counters_rise_whatever_the_clock_does(clock: list[int], first: int) -> None:
    ids = MessageIds(5, first)
    drawn = [parse_hex(ids.next(ms).hex()).counter for ms in clock]
    assert drawn == list(range(first, first + len(clock)))


def test_ids_drawn_by_many_threads_at_one_time_are_unique() -> None:
    ids = MessageIds(5)
    start = threading.Barrier(8)
    drawn: list[list[str]] = [[] for _ in range(8)]

    def draw(mine: list[str]) -> None:
        start.wait()
        mine.extend(ids.next(NOW).hex() for _ in range(5000))

    threads = [threading.Thread(target=draw, args=(mine,)) for mine in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set().union(*drawn)) == 40_000


@given(any_stamps, any_stamps)
def test_two_stamps_of_one_epoch_have_one_nonce_only_if_they_are_equal(one: Stamp, other: Stamp) -> None:
    assert len(one.nonce()) == 12
    assert (one.nonce() == other.nonce()) == (one[:2] == other[:2])


def test_the_counter_of_the_highest_allowed_start_does_not_touch_the_time() -> None:
    ids = MessageIds(0, 2**41 - 1)
    assert [parse_hex(ids.next(NOW).hex()).ms for _ in range(3)] == [NOW] * 3


@pytest.mark.parametrize(("epoch", "first"), [(-1, 0), (2**32, 0), (0, -1), (0, 2**41)])
def test_an_epoch_or_start_out_of_range_is_refused(epoch: int, first: int) -> None:
    with pytest.raises(LocalProtocolError, match="out of range"):
        MessageIds(epoch, first)


@pytest.mark.parametrize("ms", [-1, 2**48])
def test_a_clock_that_no_id_can_carry_is_refused(ms: int) -> None:
    with pytest.raises(LocalProtocolError, match="clock"):
        MessageIds(0).next(ms).hex()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_source_of_ids_cannot_be_copied(duplicate: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="cannot be copied"):
        duplicate(MessageIds(1))


GOOD = MessageIds(1).next(NOW).hex()
URN = uuid.UUID(GOOD).urn


@pytest.mark.parametrize(
    "digits",
    [
        "",
        GOOD[1:],
        GOOD + "0",
        GOOD.upper(),
        "0x" + GOOD[2:],
        " " + GOOD[1:],
        GOOD[:-1] + "\n",
        "1_" + GOOD[2:],
        "g" + GOOD[1:],
        "c2c1c251b47a492e911e2fa0983cc98f",
        GOOD[:12] + "7" + GOOD[13:],
        GOOD[:16] + "0" + GOOD[17:],
    ],
)
def test_other_digits_are_no_id(digits: str) -> None:
    with pytest.raises(FrameError):
        parse_hex(digits)


@pytest.mark.parametrize(
    "urn",
    [
        "",
        GOOD,
        URN[1:],
        URN + "\n",
        URN.upper(),
        URN.replace("-", ""),
        "urn:uuid:",
    ],
)
def test_other_text_is_no_urn(urn: str) -> None:
    assert not is_urn(urn)
    with pytest.raises(FrameError, match="canonical"):
        parse_urn(urn)


def test_an_id_of_the_original_is_a_urn_without_stamp() -> None:
    urn = uuid.uuid4().urn
    assert is_urn(urn)
    with pytest.raises(FrameError, match="UUIDv8"):
        parse_urn(urn)
