"""Tables of a pipeline, as any reader of Parquet finds them, and the commands that make them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import pzc
from pzc.testing import Result, Running, command
from pzc.testing.journals import Truth

KEY = "a key of the lab"
"""Of the journals that `pzc.testing.journals` makes."""

KEYRING = 'active = "new"\n[keys.old]\nsecret = "the older key of the lab"\n[keys.new]\nsecret = "the newer key of the lab"\n'
"""A file with the keys before and after a rotation."""

TRUTH = ("notifications", "damaged", "gaps", "missing")


def run(folder: Path, *arguments: str, key: str | None = KEY, **environment: str) -> Result:
    """Run a command in a folder. With the fixture ``spark``, it uses the session of this process."""
    return command(*arguments, cwd=folder, environment={"PZC_KEY": key, **environment})


def files(tables: Path, name: str) -> Iterator[Path]:
    """Files of one table."""
    return (path for path in (tables / name).rglob("*.parquet") if not path.name.startswith(("_", ".")))


def stored(tables: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of a table; no rows when it has no files."""
    found: list[tuple[Any, ...]] = []
    for path in files(tables, name):
        with pq.ParquetFile(path) as file:
            rows = file.read(list(columns))
        found += zip(*(rows.column(column).to_pylist() for column in columns), strict=True)
    return found


def rows(tables: Path, name: str, *columns: str) -> list[Any]:
    """Values of one column of a snapshot, or tuples of several, in order."""
    found = pzc.tables(tables)[name].to_table(list(columns)).to_pylist()
    return sorted((row[columns[0]] if len(columns) == 1 else tuple(row.values()) for row in found), key=repr)


def recorded(folder: Path, contents: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """Publish contents, record them, and make tables of them; the rows by the keys of the contents."""
    with pzc.Agent(name="lab", protocol=pzc.Protocol(KEY)) as agent:

        def meanwhile(running: Running) -> None:
            running.line()
            for key, content in contents.items():
                agent.publish("v", content, key=key)

        told = command(
            "record", agent.rep_endpoint, "--journal", "journal", cwd=folder, environment={"PZC_KEY": KEY},
            meanwhile=meanwhile,
        )  # fmt: skip
    assert told.status == 0, told.err
    told = run(folder, "pipeline", "run", "journal", "tables", "--once")
    assert told.status == 0, told.err
    return {row["key"]: row for row in pzc.tables(folder / "tables")["notifications"].to_table().to_pylist()}


def found(tables: Path) -> dict[str, int]:
    """What tables hold, by the names that `Truth` has for it."""
    gaps = [count for (count,) in stored(tables, "gaps", "count")]
    return {
        "notifications": len(stored(tables, "notifications", "sequence")),
        "damaged": len(stored(tables, "quarantine", "sequence")),
        "gaps": len(gaps),
        "missing": sum(gaps),
    }


def expected(truth: Truth) -> dict[str, int]:
    """The same, as it has to be."""
    return {name: getattr(truth, name) for name in TRUTH}
