"""`pzc journal info` and `verify`: what is in a journal, and what is wrong with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent, Protocol
from pzc.testing import Result, Running, command
from pzc.testing.journals import Recording, Truth, write_journal

from tests.contract.rigs.tables import KEY

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")

TIMEOUT = 20.0
RECORDING = Recording(published=3000, agents=2, topics=("v", "w"), damaged=0.0, lost=0.01, repeated=0.01)


def asked(job: str, folder: Path, *options: str, key: str = KEY) -> Result:
    environment = {"PZC_KEY": key, "PZC_DISCOVERY_IP": "off"}
    return command("journal", job, str(folder / "journal"), *options, environment=environment)


def told(job: str, folder: Path, status: int, key: str = KEY) -> dict[str, Any]:
    outcome = asked(job, folder, "--json", key=key)
    assert outcome.status == status, outcome.err
    return outcome.rows[-1]


def made(folder: Path, **changes: Any) -> Truth:
    return write_journal(folder / "journal", replace(RECORDING, **changes), rows_per_segment=500)


def totals(topics: list[dict[str, Any]]) -> tuple[int, int, int]:
    return tuple(sum(each[name] for each in topics) for name in ("rows", "missing", "repeated"))  # type: ignore[return-value]


def test_info_counts_what_a_journal_holds(tmp_path: Path) -> None:
    truth = made(tmp_path)
    found = told("info", tmp_path, 0)
    assert (found["segments"], found["rows"], found["size"]) == (truth.segments, truth.rows, truth.size)
    assert totals(found["topics"]) == (truth.rows, truth.missing, truth.repeated)
    assert [(each["name"], each["topic"]) for each in found["topics"]] == [
        ("agent0", "v"), ("agent0", "w"), ("agent1", "v"), ("agent1", "w"),
    ]  # fmt: skip
    assert {each["starts"] for each in found["topics"]} == {2}
    assert "refused" not in found
    first = found["topics"][0]
    assert first["first"] < first["last"]
    assert first["first"].startswith("2026-01-01T00:00:00")
    assert len(first["keys"]) == 1


def test_verify_counts_rows_that_were_changed(tmp_path: Path) -> None:
    truth = made(tmp_path, damaged=0.01)
    found = told("verify", tmp_path, 1)
    assert truth.damaged > 0
    assert sum(each["count"] for each in found["refused"]) == truth.damaged
    assert {each["error"] for each in found["refused"]} == {"SignatureError"}


def test_verify_of_a_good_journal_succeeds(tmp_path: Path) -> None:
    truth = made(tmp_path)
    assert told("verify", tmp_path, 0)["refused"] == []
    assert f"{truth.rows} rows verified, 0 did not" in asked("verify", tmp_path).out


def test_a_wrong_key_is_told_once_for_each_topic(tmp_path: Path) -> None:
    truth = made(tmp_path)
    found = told("verify", tmp_path, 1, key="another key of the lab")
    assert len(found["refused"]) == 4
    assert sum(each["count"] for each in found["refused"]) == truth.rows


def test_what_cannot_be_read_is_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    truth = made(tmp_path)
    first, second, third, *rest = sorted((tmp_path / "journal").glob("*.parquet"))
    first.write_bytes(first.read_bytes()[:-100])
    second.write_bytes(b"")
    pq.write_table(pa.table({"a": [1]}), third)
    for name in ("notes.txt", "segment-of-mine.parquet"):
        (tmp_path / "journal" / name).write_text("stray", encoding="utf-8")
    found = told("info", tmp_path, 1)
    assert set(found["damaged"]) == {first.name, second.name, third.name}
    assert "header" in found["damaged"][third.name]
    assert found["strays"] == ["notes.txt", "segment-of-mine.parquet"]
    assert found["rows"] == truth.rows - 1500
    assert found["segments"] == len(rest)
    said = asked("info", tmp_path).err
    assert all(name in said for name in (first.name, second.name, third.name, "notes.txt"))


def test_what_a_recorder_knows_to_be_missing_is_counted_by_reason(tmp_path: Path) -> None:
    made(tmp_path)
    line = (
        '{"at": 1.0, "publisher": "p", "name": "psu", "epoch": 1, "topic": "v", "first": 5, "last": 9, '
        '"count": 5, "reason": "evicted"}\n'
    )
    (tmp_path / "journal" / "_gaps-recorder.jsonl").write_text(line, encoding="utf-8")
    assert told("info", tmp_path, 0)["lost"] == {"evicted": 5}


def test_a_changed_blob_is_found_by_verify(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with Agent(name="cam", protocol=Protocol(KEY)) as cam:

        def publish(running: Running) -> None:
            running.line()
            assert cam.wait_for_subscribers("image", 1, TIMEOUT)
            cam.publish("image", b"x" * (2 << 20))

        environment = {"PZC_KEY": KEY, "PZC_DISCOVERY_IP": "off"}
        outcome = command("record", cam.rep_endpoint, "--journal", str(journal), environment=environment,
                          meanwhile=publish)  # fmt: skip
    assert outcome.status == 0, outcome.err
    found = told("verify", tmp_path, 0)
    assert (found["rows"], found["blobs"], found["strays"]) == (1, 1, [])
    (blob,) = journal.glob("blobs/*/*")
    blob.write_bytes(b"y" + blob.read_bytes()[1:])
    (refused,) = told("verify", tmp_path, 1)["refused"]
    assert "digest" in refused["reason"]


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    for job in ("info", "verify"):
        outcome = asked(job, tmp_path)
        assert (outcome.status, outcome.out) == (1, "")
        assert "no journal at" in outcome.err
