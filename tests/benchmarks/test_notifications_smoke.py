"""The notification benchmark runs, checks what arrives, and leaves nothing; how fast anything is plays no part."""

from __future__ import annotations

import mmap
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import tables
from benchmarks.cases import Best, Sum
from benchmarks.ends import SMALL, Setting, Writer
from benchmarks.jobs import WrongResult
from benchmarks.leftovers import Leftovers
from benchmarks.notification_cases import CASES, MIB, Case, Contender, Effort
from benchmarks.notification_jobs import MARK, NUMBERS, Payloads, Taking, burst, paced, write
from benchmarks.rounds import Outcome, run_case

ROOT = Path(__file__).resolve().parents[2]
TINY = Effort({64: 5, MIB: 3, 16 * MIB: 2, 64 * MIB: 2}, {64: 50, MIB: 5}, 3, 4, 6, 10)
PLAIN = {"policy": "drop"}

pytestmark = [pytest.mark.once, pytest.mark.slow]


def case_of(key: str) -> Case:
    return next(case for case in CASES if case.key == key)


def payload(first: int, last: int | None = None) -> bytes:
    return NUMBERS.pack(first, first if last is None else last)


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("latency-64", ("ours", "recv", "zmq-ipc")),
        ("latency-64", ("iceoryx2", "ezmsg", "ecal", "zenoh", "zmq-ipc", "zmq-signed")),
        ("latency-1m", ("ours", "zero-copy", "small", "copy", "zmq", "zmq-no-copy")),
        ("loan-64m", ("ours", "iceoryx2")),
        ("rate-64", ("ours", "wide", "zmq-signed")),
        ("rate-1m-4", ("ours", "iceoryx2", "zenoh", "zmq-no-copy")),
        ("rate-64-broadcast", ("ours", "zmq", "zmq-signed")),
    ],
)
def test_everybody_who_is_installed_has_a_turn_in_every_round(key: str, names: tuple[str, ...]) -> None:
    case = case_of(key)
    case = replace(case, contenders={name: case.contenders[name] for name in names}, readers=1)
    outcome = run_case(case, TINY, 2, None)
    assert not outcome.failures
    assert {*outcome.values, *outcome.absent} == {*names}
    assert all(len(values) == 2 and min(values) > 0 for values in outcome.values.values())


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("take", ["callback", "recv", "recv_zero_copy"])
def test_our_reader_takes_arrays_in_every_way(take: str, whole: bool) -> None:
    ours = Contender("pzc", "pzc", {**PLAIN, "take": take})
    case = replace(case_of("latency-1m"), contenders={"ours": ours})
    outcome = run_case(case, replace(TINY, whole=whole), 1, None)
    assert outcome.values.keys() == {"ours"}, outcome.failures


def test_contents_are_counted_when_a_process_has_many_subscriptions() -> None:
    ours = Contender("pzc", "fan", {**PLAIN, "many": True})
    outcome = run_case(replace(case_of("fan-out"), contenders={"ours": ours}), TINY, 2, None)
    assert len(outcome.values["ours"]) == 2, outcome.failures


def test_the_memory_of_a_publisher_is_looked_at_while_its_readers_are_slow() -> None:
    case = case_of("memory")
    slow = replace(case.contenders["ours"], own={"policy": "latest"})
    outcome = run_case(replace(case, contenders={"ours": slow}, readers=2), TINY, 1, None)
    assert len(outcome.values["ours"]) == 1, outcome.failures


def test_a_contender_that_cannot_take_part_is_told_of_and_the_others_go_on() -> None:
    wrong = Contender("wrong", "pzc", {"policy": "no such policy"})
    case = case_of("rate-64-broadcast")
    case = replace(case, contenders={"wrong": wrong, "zmq": case.contenders["zmq"]})
    outcome = run_case(case, TINY, 1, None)
    assert "no such policy" in outcome.failures["wrong"]
    assert len(outcome.values["zmq"]) == 1


def test_a_round_without_a_hole_is_right() -> None:
    taking = Taking(True, 3, keep=True)
    assert [taking(payload(number)) for number in (MARK, 1, 2, 3)] == [False, False, False, True]
    assert [number for number, _ in taking.result()["came"]] == [1, 2, 3]


@pytest.mark.parametrize(
    "payloads", [(payload(1), payload(3)), (payload(1), payload(1)), (payload(1), payload(2, 1))]
)
def test_a_missing_repeated_or_torn_payload_is_a_wrong_result(payloads: tuple[bytes, bytes]) -> None:
    taking = Taking(True, 3)
    assert [taking(each) for each in payloads] == [False, True]
    with pytest.raises(WrongResult, match="came after 1"):
        taking.result()


def test_where_losses_are_allowed_a_mark_ends_the_round() -> None:
    taking = Taking(True, 9, lossy=True)
    assert [taking(payload(number)) for number in (MARK, 1, 4, MARK)] == [False, False, False, True]
    assert taking.result()["received"] == 2


def test_a_repeated_payload_is_wrong_even_where_losses_are_allowed() -> None:
    taking = Taking(True, 9, lossy=True)
    assert [taking(payload(number)) for number in (1, 4, 4)] == [False, False, True]
    with pytest.raises(WrongResult, match="came after 4"):
        taking.result()


def test_a_whole_look_finds_a_wrong_element_in_the_middle() -> None:
    array = np.zeros(100)
    write(array, 1, whole=True)
    assert not Taking(False, 2, whole=True)(array)
    array[50] = 0
    taking = Taking(False, 2, whole=True)
    assert taking(array)
    with pytest.raises(WrongResult, match="not whole"):
        taking.result()


class Collecting(Writer):
    """Keeps copies of what it is given."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, payload: Any) -> None:
        self.sent.append(bytes(payload))


@pytest.mark.parametrize(("job", "arguments"), [(paced, {"interval": 0.0}), (burst, {})])
@pytest.mark.parametrize("size", [SMALL, 800])
def test_a_writer_numbers_its_payloads(job: Callable[..., Any], arguments: dict[str, Any], size: int) -> None:
    setting, writer = Setting(size, 1, "0", ""), Collecting()
    sent = writer.run(job(writer, Payloads(setting, 2), 3, **arguments))
    taking = Taking(size <= SMALL, 3, keep=True)
    assert [taking(each) for each in writer.sent] == [False, False, True]
    assert sent[0] <= taking.result()["came"][0][1]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A name in shared memory that nobody else has."""
    path = Path(f"/dev/shm/{secrets.token_hex(8)}")
    yield path
    path.unlink(missing_ok=True)


def use(path: Path, leftovers: Leftovers) -> None:
    """What is noted of a process that has it mapped."""
    path.write_bytes(b"0" * mmap.PAGESIZE)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        leftovers.note(os.getpid())


def test_what_a_child_left_in_shared_memory_is_removed_by_its_token(shared: Path) -> None:
    shared.touch()
    assert Leftovers(shared.name).sweep() == [shared]
    assert not shared.exists()


def test_what_a_child_had_mapped_is_removed_whatever_its_name(shared: Path) -> None:
    leftovers = Leftovers(secrets.token_hex(8))
    use(shared, leftovers)
    assert leftovers.sweep() == [shared]
    assert not shared.exists()


def test_what_was_there_before_stays_even_when_a_child_had_it_mapped(shared: Path) -> None:
    shared.touch()
    leftovers = Leftovers(secrets.token_hex(8))
    use(shared, leftovers)
    assert leftovers.sweep() == []
    assert shared.exists()


def test_what_somebody_else_has_in_shared_memory_stays(shared: Path) -> None:
    leftovers = Leftovers(secrets.token_hex(8))
    shared.touch()
    leftovers.note(os.getpid())
    assert leftovers.sweep() == []
    assert shared.exists()


def test_a_sum_is_taken_round_by_round() -> None:
    found = {"copy": [10.0, 20.0], "small": [1.0, 2.0]}
    assert Sum("floor", {"copy": 1.5, "small": 1.0}).values(found) == [16.0, 32.0]
    assert Sum("floor", {"copy": 1.5, "gone": 1.0}).values(found) == []


def test_the_best_rival_has_the_best_median() -> None:
    found = {"a": [1.0, 9.0, 9.0], "b": [5.0, 5.0, 5.0], "failed": []}
    assert Best(("a", "b", "failed", "absent")).name(found) == "b"
    assert Best(("a", "b", "failed", "absent"), highest=True).name(found) == "a"
    assert Best(("absent",)).values(found) == []


def test_a_row_names_the_best_rival_and_the_sum() -> None:
    case = case_of("latency-16m")
    values = {"ours": [2.0], "zmq": [4.0], "iceoryx2": [3.0], "copy": [1.0], "small": [1.0]}
    derived = [bar for bar in case.bars if bar.ours == "ours" and bar.rival in case.derived]
    rows = [tables.row(case, bar, Outcome(case.key, pinned=True, values=values)) for bar in derived]
    assert [row[2] for row in rows] == ["iceoryx2, event", "1.15 copies in memory and our 64 B"]
    assert [row[-1] for row in rows] == ["yes", "-"]


def test_a_whole_look_is_no_measurement_for_the_page() -> None:
    command = [sys.executable, "-m", "benchmarks.notifications", "--verify", "--update-docs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 2
    assert "no measurement" in done.stderr


def test_the_page_has_a_part_for_the_tables() -> None:
    page = (ROOT / "docs" / "notifications-performance.md").read_text(encoding="utf-8")
    assert page.index("<!-- notifications: begin -->") < page.index("<!-- notifications: end -->")
