"""What the pipeline makes of one journal, by one run: lines that need Spark."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest

from pzc import Agent, Protocol
from pzc.testing import Result, Running, command

pa: Any = pytest.importorskip("pyarrow")
dataset: Any = pytest.importorskip("pyarrow.dataset")
pq: Any = pytest.importorskip("pyarrow.parquet")

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TIMEOUT = 20.0
ALONE = {"PZC_DISCOVERY_IP": "off", "PZC_KEY": "", "PZC_PEERS": "", "PZC_REGISTRY": ""}
LONG = "ü" * 127
"""The longest name that an agent may have, in bytes."""

DEEP = 100_000
BOMBS = {
    "json": b"[" * DEEP + b"]" * DEEP,
    "msgpack": b"\x91" * DEEP + b"\xc0",
    "pickle": b"\x80\x02" + b"]" * DEEP + b"a" * (DEEP - 1) + b".",
    "pickle2": b"\x80\x02c__builtin__\nxrange\nK\x00\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x86R.",
    "pickle3": b"\x80\x03cbuiltins\nrange\nK\x00\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x86R.",
}
"""Contents that cannot be decoded, by serializer; each tries to end or to hang who reads it."""

SCRIPT = """
import json, sys
from pathlib import Path
from pzc.testing import command

if __name__ == "__main__":
    for arguments in json.loads(sys.argv[1]):
        if arguments[0] == "mv":
            Path(arguments[1]).rename(arguments[2])
            continue
        if arguments[0] == "spoil":
            for path in Path(arguments[1]).rglob("*.parquet"):
                path.write_bytes(b"spoilt")
            continue
        outcome = command(*arguments)
        print(json.dumps([outcome.status, outcome.out, outcome.err]), flush=True)
"""


class Lab(NamedTuple):
    """One journal, its tables, and what the commands said that made them."""

    journal: Path
    tables: Path
    rows: int
    first: Result
    again: Result

    def notifications(self) -> list[dict[str, Any]]:
        return dataset.dataset(self.tables / "notifications", partitioning="hive").to_table().to_pylist()


def recorded(journal: Path) -> None:
    """Let a recorder write what two agents publish."""
    with Agent(name="psu", protocol=Protocol("")) as psu, Agent(name=LONG, protocol=Protocol("")) as long:

        def publish(running: Running) -> None:
            running.line()
            for agent in (psu, long):
                for topic in ("voltage", "trace"):
                    assert agent.wait_for_subscribers(topic, 1, TIMEOUT)
            for number in range(20):
                psu.publish("voltage", math.sin(number))
            psu.publish("trace", numpy.array([1.0, 2.5, 4.0]))
            long.publish("voltage", 1.5)

        endpoints = psu.rep_endpoint, long.rep_endpoint
        outcome = command(
            "record", *endpoints, "--journal", str(journal), environment=ALONE, meanwhile=publish
        )
    assert outcome.status == 0, outcome.err


def add_bombs(journal: Path) -> int:
    """Add rows of the kind that attacks are made of, as a recorder would have written them; all rows then."""
    (path,) = journal.glob("*.parquet")
    table = pq.read_table(path)
    rows = table.to_pylist()
    like = next(row for row in rows if row["topic"] == "voltage")
    for number, (serializer, content) in enumerate(BOMBS.items()):
        offset = len(rows)
        header = f"PZC01+{like['publisher']}+bomb+{number + 1}+".encode()
        rows.append(
            {**like, "header": header, "serializer": serializer.encode(), "content": content, "offset": offset,
             "topic": "bomb", "sequence": number + 1}
        )  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    return len(rows)


def of_an_original(journal: Path) -> Path:
    """A journal of one notification of an original; a copy of it, recorded next, stands beside the journal."""
    frames = [b"PZC00+tcp://127.0.0.1:5+v", b"json", b"1.5", b"urn:uuid:one", b""]
    columns = ("header", "serializer", "content", "msgid", "signature")
    texts = [
        (name, pa.string()) for name in ("recorder", "publisher", "name", "topic", "key_id", "content_ref")
    ]
    times = [(name, pa.timestamp("us", tz="UTC")) for name in ("received_at", "sent_at")]
    schema = pa.schema(
        [*((name, pa.binary()) for name in columns), *texts, *times]
        + [(name, pa.int64()) for name in ("offset", "epoch", "sequence")],
        metadata={"pzc.journal": "1"},
    )
    row = {**dict(zip(columns, frames, strict=True)), "recorder": "r", "publisher": "tcp://127.0.0.1:5",
           "topic": "v", "received_at": 1_767_225_600_000_000}  # fmt: skip
    journal.mkdir()
    for offset, path in (
        (0, journal / f"segment-r-{0:016d}.parquet"),
        (1, journal.parent / "second.parquet"),
    ):
        pq.write_table(pa.Table.from_pylist([{**row, "offset": offset}], schema), path)
    return journal


def in_one_process(folder: Path, *commands: tuple[str, ...]) -> list[Result]:
    """What commands did, one after the other; the JVM starts once. Between them, files are moved and spoilt."""
    script = folder / "commands.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", str(script), json.dumps(commands)],
        env={**os.environ, **ALONE}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == sum(each[0] == "pipeline" for each in commands), done.stderr
    return [Result(*json.loads(line)) for line in lines]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder = tmp_path_factory.mktemp("lab")
    journal, tables = folder / "journal", folder / "tables"
    recorded(journal)
    rows = add_bombs(journal)
    run = "pipeline", "run", str(journal), str(tables), "--once", "--json"
    old, old_tables = of_an_original(folder / "old"), str(folder / "old-tables")
    run_old = "pipeline", "run", str(old), old_tables, "--once", "--json"
    first, _, again = in_one_process(
        folder,
        run,
        run_old,
        ("spoil", f"{old_tables}/notifications"),
        ("mv", str(folder / "second.parquet"), str(old / f"segment-r-{1:016d}.parquet")),
        run_old,
    )
    return Lab(journal, tables, rows, first, again)


def test_rows_that_attack_their_reader_end_in_quarantine(lab: Lab) -> None:
    assert lab.first.status == 0, lab.first.err
    told = lab.first.rows[-1]
    assert told["notifications"] + told["quarantined"] == told["rows"] == lab.rows
    assert told["quarantined"] == len(BOMBS)


def test_the_longest_name_becomes_a_folder_that_a_file_system_takes(lab: Lab) -> None:
    found = [row for row in lab.notifications() if row["name"] == LONG]
    assert [(row["topic"], row["value_double"]) for row in found] == [("voltage", 1.5)]
    folders = [path.name for path in lab.tables.rglob("agent=*")]
    assert max(len(os.fsencode(name)) for name in folders) < 200


def test_a_copy_of_an_originals_row_is_known_without_reading_what_is_stored(lab: Lab) -> None:
    assert lab.again.status == 0, lab.again.err
    told = lab.again.rows[-1]
    assert (told["rows"], told["notifications"], told["duplicates"]) == (1, 0, 1)


def test_the_values_of_a_small_array_stand_in_its_row(lab: Lab) -> None:
    (row,) = [row for row in lab.notifications() if row["topic"] == "trace"]
    assert [1.0, 2.5, 4.0] in row.values()


def test_every_time_in_the_tables_is_utc_microseconds(lab: Lab) -> None:
    assert_times(lab.tables)


@pytest.mark.timeout(600)
def test_the_demos_tables_have_the_times_of_the_pipelines(tmp_path: Path, lab: Lab) -> None:
    root = Path(__file__).resolve().parents[3]
    demo = [sys.executable, "-m", "examples.lab.demo", "--report", str(tmp_path), "--seconds", "3"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        demo, cwd=root, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert_times(tmp_path / "tables")
    for name in ("notifications", "quarantine", "gaps", "statistics"):
        ours, theirs = (schema_of(tables / name) for tables in (lab.tables, tmp_path / "tables"))
        assert not theirs or ours == theirs, name


def schema_of(table: Path) -> dict[str, str]:
    """Types by column; empty for a table without files."""
    for path in table.rglob("*.parquet"):
        return {field.name: str(field.type) for field in pq.read_schema(path)}
    return {}


def assert_times(tables: Path) -> None:
    files = [path for path in tables.rglob("*.parquet") if ".staging" not in path.parts]
    assert files
    for path in files:
        times = [field for field in pq.read_schema(path) if pa.types.is_timestamp(field.type)]
        assert {str(field.type) for field in times} <= {"timestamp[us, tz=UTC]"}, path
