"""Journals that `pzc.testing.journals` makes, beside what it says of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.schema import JOURNAL, segments
from pzc.protocol.keyring import Key, Keyring
from pzc.testing.journals import Recording, Truth, write_journal

from tests.effort import many

FEW = Recording(published=3000, lost=0.02, repeated=0.02, damaged=0.02, restarts=2)


def rows_of(directory: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for _, path in segments(directory)])


def decoded(directory: Path, *secrets: str) -> list[dict[str, Any]]:
    keys = [Key(secret) for secret in secrets]
    decoder = make_decoder(Keyring(keys, keys[0]))
    return [row for batch in decoder(rows_of(directory).to_batches(1000)) for row in batch.to_pylist()]


def counted(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Facts of decoded rows, the slow and plain way."""
    good = [row for row in rows if row["error"] is None]
    series: defaultdict[tuple[str, int, str], set[int]] = defaultdict(set)
    for row in good:
        series[row["publisher"], row["epoch"], row["topic"]].add(row["sequence"])
    holes = []
    for numbers in series.values():
        absent = set(range(min(numbers), max(numbers))) - numbers
        holes += [(number, number - 1 in absent) for number in absent]
    return {
        "rows": len(rows),
        "notifications": sum(map(len, series.values())),
        "repeated": len(good) - sum(map(len, series.values())),
        "damaged": len(rows) - len(good),
        "gaps": sum(not continues for _, continues in holes),
        "missing": len(holes),
    }


def told(truth: Truth) -> dict[str, int]:
    return {name: value for name, value in vars(truth).items() if name not in ("segments", "size")}


@settings(max_examples=many(20))
@given(
    st.integers(0, 400), st.integers(1, 5), st.integers(0, 3), st.integers(0, 5),
    *[st.floats(0, 0.3) for _ in range(3)],
)  # fmt: skip
def test_the_truth_is_what_verifying_every_row_finds(
    tmp_path_factory: pytest.TempPathFactory,
    published: int, agents: int, restarts: int, seed: int, lost: float, repeated: float, damaged: float,
) -> None:  # fmt: skip
    directory = tmp_path_factory.mktemp("journal")
    recording = Recording(
        published=published,
        agents=agents,
        restarts=restarts,
        seed=seed,
        lost=lost,
        repeated=repeated,
        damaged=damaged,
    )
    truth = write_journal(directory, recording, rows_per_segment=150)
    rows = decoded(directory, "a key of the lab") if truth.rows else []
    assert told(truth) == counted(rows)


def test_a_journal_without_faults_has_every_notification_once(tmp_path: Path) -> None:
    truth = write_journal(tmp_path, Recording(published=500, lost=0.0, repeated=0.0, damaged=0.0))
    assert told(truth) == {
        "rows": 500, "notifications": 500, "repeated": 0, "damaged": 0, "gaps": 0, "missing": 0,
    }  # fmt: skip


def test_segments_are_those_of_a_recorder(tmp_path: Path) -> None:
    truth = write_journal(tmp_path, FEW, recorder="r", rows_per_segment=1000)
    found = segments(tmp_path, "r")
    assert [first for first, _ in found] == [1000 * number for number in range(truth.segments)]
    assert truth.size == sum(path.stat().st_size for _, path in found)
    assert all(pq.read_schema(path).equals(JOURNAL, check_metadata=True) for _, path in found)
    assert rows_of(tmp_path)["offset"].to_pylist() == list(range(truth.rows))


def test_rows_are_in_the_order_of_receipt_and_are_not_received_before_they_are_sent(tmp_path: Path) -> None:
    write_journal(tmp_path, FEW)
    rows = rows_of(tmp_path)
    received, sent = rows["received_at"].to_pylist(), rows["sent_at"].to_pylist()
    assert received == sorted(received)
    assert all(before < after for before, after in zip(sent, received, strict=True))


def test_a_seed_gives_the_same_rows_in_any_number_of_processes(tmp_path: Path) -> None:
    for name, processes in (("one", 1), ("two", 2)):
        write_journal(tmp_path / name, FEW, rows_per_segment=1000, processes=processes)
    assert rows_of(tmp_path / "one").equals(rows_of(tmp_path / "two"))


def test_another_seed_gives_other_agents_and_other_faults(tmp_path: Path) -> None:
    truths = [write_journal(tmp_path / str(seed), replace(FEW, seed=seed)) for seed in (1, 2)]
    assert truths[0] != truths[1]
    one, two = (set(rows_of(tmp_path / str(seed))["publisher"].to_pylist()) for seed in (1, 2))
    assert not one & two


def test_keys_are_rotated(tmp_path: Path) -> None:
    truth = write_journal(
        tmp_path, replace(FEW, secrets=("a long secret of old", "a long secret of new"), damaged=0.0)
    )
    assert counted(decoded(tmp_path, "a long secret of old", "a long secret of new"))["damaged"] == 0
    refused = counted(decoded(tmp_path, "a long secret of new"))["damaged"]
    assert abs(refused - truth.rows / 2) < 50


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_clocks_are_stepped_in_the_middle(tmp_path: Path, step: float) -> None:
    write_journal(tmp_path, replace(FEW, clock_step=step))
    times = [row["received_at"] for row in decoded(tmp_path, "a key of the lab")]
    steps = [(b - a).total_seconds() for a, b in pairwise(times)]
    assert [round(each) for each in steps if abs(each) > 1] == [step]
