"""Whatever is wrong with a journal or its keys, what is lost is a row of the tables, and the journal stays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pzc.testing.journals import Recording, write_journal

from tests.contract.rigs.tables import KEY, KEYRING, expected, found, run, stored

pytestmark = [
    pytest.mark.usefixtures("spark"),
    pytest.mark.java,
    pytest.mark.timeout(280),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]

IDENTITY = "publisher", "topic", "sequence"
Identity = tuple[Any, ...]


def run_once(folder: Path, key: str = KEY) -> None:
    """Make the tables of a folder; the command must succeed."""
    outcome = run(folder, "pipeline", "run", "journal", "tables", "--once", key=key)
    assert outcome.status == 0, outcome.err


DAMAGES = ("changed", "torn", "truncated", "emptied")


def damage(path: Path, how: str) -> None:
    """Change 64 bytes in the middle, or where a page begins; or leave half of the file, or nothing."""
    whole = path.read_bytes()
    if how == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif how == "emptied":
        path.write_bytes(b"")
    else:
        column = pq.read_metadata(path).row_group(0).column(0)
        at = len(whole) // 2 if how == "changed" else column.data_page_offset
        changed = bytes(byte ^ 0xFF for byte in whole[at : at + 64])
        path.write_bytes(whole[:at] + changed + whole[at + 64 :])


@dataclass(frozen=True)
class Hurt:
    """A journal with one damaged segment of each kind between good ones, and its tables.

    Attributes:
        tables: their folder.
        intact: identities of what was in good segments.
        lost: identities of what was in each damaged one.
        files: names of these.
    """

    tables: Path
    intact: set[Identity]
    lost: dict[str, set[Identity]]
    files: dict[str, str]


@pytest.fixture(scope="module")
def hurt(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Hurt:
    folder = tmp_path_factory.mktemp("hurt")
    recording = Recording(published=2700, agents=2, restarts=0, lost=0.0, repeated=0.0, damaged=0.0)
    write_journal(folder / "journal", recording, rows_per_segment=300)
    paths = sorted((folder / "journal").glob("segment-*.parquet"))
    bad = dict(zip(DAMAGES, paths[1::2], strict=True))
    lost = {how: numbers(path) for how, path in bad.items()}
    intact = {row for path in paths[::2] for row in numbers(path)}
    for how, path in bad.items():
        damage(path, how)
    run_once(folder)
    return Hurt(folder / "tables", intact, lost, {how: path.name for how, path in bad.items()})


def test_damaged_segments_keep_nothing_of_good_ones_from_the_tables(hurt: Hurt) -> None:
    rows = stored(hurt.tables, "notifications", *IDENTITY)
    assert len(set(rows)) == len(rows)
    assert hurt.intact <= set(rows)
    assert set(rows) <= hurt.intact.union(*hurt.lost.values())


@pytest.mark.parametrize("how", DAMAGES)
def test_what_a_damaged_segment_held_is_in_the_tables_or_missing_and_somebody_is_told(
    hurt: Hurt, how: str
) -> None:
    absent = hurt.lost[how] - set(stored(hurt.tables, "notifications", *IDENTITY))
    gaps = stored(hurt.tables, "gaps", "publisher", "topic", "first_missing", "last_missing")
    missing = {(who, topic, number) for who, topic, first, last in gaps for number in range(first, last + 1)}
    assert absent
    assert absent <= missing
    named = [file for (file,) in stored(hurt.tables, "damaged", "file")]
    refused = set(stored(hurt.tables, "quarantine", *IDENTITY))
    assert hurt.files[how] in named or absent <= refused


def numbers(path: Path) -> set[Identity]:
    columns = pq.read_table(path, columns=list(IDENTITY))
    return set(zip(*(columns.column(name).to_pylist() for name in IDENTITY), strict=True))


def test_a_journal_is_only_read(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    write_journal(journal, Recording(published=600), rows_per_segment=200)
    journal.chmod(0o555)
    before = state(journal)
    run_once(tmp_path)
    assert state(journal) == before
    assert (tmp_path / "tables" / "notifications").is_dir()


def state(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Names, sizes, times and modes; the folder's own time tells of files that came and went."""
    return {
        path.name: (path.stat().st_size, path.stat().st_mtime_ns, path.stat().st_mode)
        for path in (folder, *folder.iterdir())
    }


def test_what_was_signed_with_a_key_that_came_later_is_found_by_a_backfill(tmp_path: Path) -> None:
    recording = Recording(published=900, secrets=("the older key of the lab", "the newer key of the lab"))
    truth = write_journal(tmp_path / "journal", recording)
    run_once(tmp_path, key="the older key of the lab")
    assert found(tmp_path / "tables")["damaged"] > truth.rows / 3
    keys = tmp_path / "keys.toml"
    keys.write_text(KEYRING, encoding="utf-8")
    keys.chmod(0o600)
    day = recording.start.date().isoformat()
    backfill = "pipeline", "backfill", "journal", "tables", "--from", day, "--to", day
    assert run(tmp_path, *backfill, key=None, PZC_KEYRING=str(keys)).status == 0
    assert found(tmp_path / "tables") == expected(truth)


def test_a_backfill_without_the_key_replaces_nothing_that_verified(tmp_path: Path) -> None:
    recording = Recording(published=300)
    truth = write_journal(tmp_path / "journal", recording)
    run_once(tmp_path)
    day = recording.start.date().isoformat()
    backfill = "pipeline", "backfill", "journal", "tables", "--from", day, "--to", day
    refused = run(tmp_path, *backfill, key="a key of another laboratory")
    assert refused.status == 1
    assert "nothing was replaced" in refused.err
    assert found(tmp_path / "tables") == expected(truth)


def test_a_run_in_which_no_row_verifies_says_so(tmp_path: Path) -> None:
    write_journal(tmp_path / "journal", Recording(published=300))
    outcome = run(
        tmp_path, "pipeline", "run", "journal", "tables", "--once", key="a key of another laboratory"
    )
    assert outcome.status == 0
    assert "no row verified" in outcome.err
