"""`pzc report` shows the values of stored notifications over time, without a JVM."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from pzc.testing import command

pytest.importorskip("duckdb")
pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")

pytestmark = [
    pytest.mark.allow_leaks("matplotlib keeps the fonts that it draws with open"),
    pytest.mark.filterwarnings("error"),
]

SECOND = 1_000_000
START = 1_767_225_600 * SECOND
MOMENT = pa.timestamp("us", tz="UTC")
KINDS = {
    **dict.fromkeys(("publisher", "name", "topic", "key", "value_json", "rule"), pa.string()),
    **dict.fromkeys(
        ("epoch", "sequence", "value_long", "first_missing", "last_missing", "count"), pa.int64()
    ),
    **dict.fromkeys(("value_double", "value"), pa.float64()),
    **dict.fromkeys(("sent_at", "received_at"), MOMENT),
    "value_bool": pa.bool_(),
    "value_list": pa.list_(pa.float64()),
    "shape": pa.list_(pa.int64()),
}


def row(number: int, **fields: object) -> dict[str, object]:
    """A notification; one a second."""
    time = START + number * SECOND
    common = {"publisher": "p", "name": "psu", "topic": "v", "epoch": 1, "sequence": number + 1}
    return {**common, "sent_at": time, "received_at": time, **fields}


def store(folder: Path, table: str, *rows: dict[str, object]) -> None:
    place = folder / table / ("date=2026-01-01/agent=psu" if table in ("notifications", "alarms") else "")
    place.mkdir(parents=True, exist_ok=True)
    names = {name for each in rows for name in each}
    schema = pa.schema([(name, KINDS[name]) for name in sorted(names)])
    pq.write_table(pa.Table.from_pylist(list(rows), schema), place / "0.parquet")


def told(folder: Path) -> list[str]:
    """What the page says of its pictures."""
    outcome = command("report", str(folder), environment={"PATH": "/nonexistent", "JAVA_HOME": None})
    assert (outcome.status, outcome.err) == (0, "")
    page = Path(outcome.out.strip()).read_text(encoding="utf-8")
    return [html.unescape(text) for text in re.findall(r'<img src="data:image/[^"]+" alt="([^"]*)"', page)]


def test_each_topic_is_drawn_with_its_range(tmp_path: Path) -> None:
    store(
        tmp_path, "notifications",
        *(row(n, topic="double", value_double=n / 2) for n in range(5)),
        *(row(n, topic="long", value_long=-n) for n in range(5)),
        *(row(n, topic="on", value_bool=bool(n % 2)) for n in range(5)),
        *(row(n, topic="signal", value_json=f"[{n}.5e1, 7.0, null]") for n in range(5)),
        row(0, topic="text", value_json='"1"'), row(1, topic="text", value_json='{"a": 1}'),
    )  # fmt: skip
    assert told(tmp_path) == [
        "psu double: 5 numbers from 0 to 2.",
        "psu long: 5 numbers from -4 to 0.",
        "psu on: 5 numbers from 0 to 1.",
        "psu signal: 5 numbers from 5 to 45.",
        "psu text.a: 1 number, 1.",
    ]


def test_each_number_in_a_dictionary_is_drawn_by_its_name(tmp_path: Path) -> None:
    many = ", ".join(f'"f{n}": {n}' for n in range(100))
    store(
        tmp_path, "notifications",
        *(row(n, topic="room", value_json=f'{{"temp": {n}.5, "door": true, "unit": "3", "in \'x\'": 1}}') for n in range(3)),
        *(row(n, topic="read", value_json=f'[{{"volts": {n}, "at": null}}, 7]') for n in range(3)),
        row(0, topic="odd", value_json='{"$": 1, "/a": 2, "": 3, "nested": {"a": 1}, "list": [1]}'),
        row(0, topic="wide", value_json=f"{{{many}}}"),
    )  # fmt: skip
    shown = told(tmp_path)
    assert shown[:2] == [
        "psu read.volts: 3 numbers from 0 to 2.",
        "psu room.temp: 3 numbers from 0.5 to 2.5.",
    ]
    assert len(shown) == 2 + 32
    assert all(text.startswith("psu wide.f") for text in shown[2:])


def test_one_number_is_drawn_and_none_is_said(tmp_path: Path) -> None:
    store(tmp_path, "notifications", row(0, value_double=1e9))
    assert told(tmp_path) == ["psu v: 1 number, 1e+09."]
    store(tmp_path, "notifications", row(0, value_double=float("nan")), row(1, value_double=float("inf")))
    assert told(tmp_path) == []


def test_the_extremes_of_many_numbers_are_drawn(tmp_path: Path) -> None:
    numbers = [float(n == 7_000) - float(n == 70_000) for n in range(100_000)]
    store(tmp_path, "notifications", *(row(n, value_double=each) for n, each in enumerate(numbers)))
    assert told(tmp_path) == ["psu v: 100000 numbers from -1 to 1."]


def test_each_key_has_a_line_up_to_a_bound(tmp_path: Path) -> None:
    store(tmp_path, "notifications", *(row(n, key=f"k{n % 9}", value_double=1.0) for n in range(90)))
    assert told(tmp_path) == ["psu v: 90 numbers from 1 to 1; keys that are not drawn: 3."]


def test_gaps_and_alarms_are_marked_at_their_topic(tmp_path: Path) -> None:
    numbers = [0, 1, 2, 8, 9]
    store(tmp_path, "notifications", *(row(n, value_double=float(n)) for n in numbers),
          *(row(n, topic="w", value_double=float(n)) for n in numbers))  # fmt: skip
    gap = {"publisher": "p", "name": "psu", "epoch": 1, "count": 5}
    store(tmp_path, "gaps", {**gap, "topic": "v", "first_missing": 4, "last_missing": 8},
          {**gap, "topic": "v", "first_missing": 11, "last_missing": 15})  # fmt: skip
    store(tmp_path, "alarms", row(9, topic="w", rule="high", value=9.0))
    assert told(tmp_path)[:2] == [
        "psu v: 5 numbers from 0 to 9; gaps: 2.",
        "psu w: 5 numbers from 0 to 9; alarms: 1.",
    ]


@pytest.mark.parametrize(
    "odd",
    [
        {"value_json": '{"half": "\\ud800"}'},
        {"value_json": '[{"half": "\\ud800"}]'},
        {"value_json": "no JSON at all"},
        {"value_json": '{"a": ' + "9" * 4000 + "}"},
        {"value_double": 1.79e308},
        {"value_double": -1.79e308},
        {"value_double": 2.0, "sent_at": 253_402_300_799_999_999},
        {"value_double": 2.0, "sent_at": 0},
    ],
)
def test_one_odd_row_keeps_nobody_else_from_the_report(tmp_path: Path, odd: dict[str, object]) -> None:
    store(tmp_path, "notifications", *(row(n, topic="w", value_double=1.0) for n in range(5)),
          *(row(n, value_double=1.0, value_json=None) for n in range(3)), row(4, **odd))  # fmt: skip
    assert "psu w: 5 numbers from 1 to 1." in told(tmp_path)


def test_the_last_array_of_a_topic_is_a_line_or_an_image(tmp_path: Path) -> None:
    store(
        tmp_path, "notifications",
        *(row(n, topic="trace", value_list=[1.0, float(n)], shape=[2]) for n in range(3)),
        row(5, topic="image", value_list=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3]),
        row(5, topic="cube", value_list=[1.0, 2.0], shape=[1, 2, 1]),
        row(5, topic="wrong", value_list=[1.0, 2.0], shape=[7]),
    )  # fmt: skip
    assert told(tmp_path) == [
        "Last array of psu image: 2 by 3, 2026-01-01 00:00:05 UTC.",
        "Last array of psu trace: 2, 2026-01-01 00:00:02 UTC.",
    ]


def test_tables_alone_are_neither_good_nor_bad_and_follow_the_readers_colours(tmp_path: Path) -> None:
    store(tmp_path, "notifications", row(0, value_double=1.0))
    assert told(tmp_path)
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "checks were made" not in page
    assert "prefers-color-scheme:dark" in page
