"""Alarm rules: what a file may say, and which notifications violate what it says."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pzc.pipeline.alarm_rules import AlarmRules, Limit, read_limits
from pzc.pipeline.schema import ALARMS, NOTIFICATIONS
from pzc.protocol.errors import ConfigError


def file_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "limits.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_limit_of_a_file_has_defaults_for_all_but_its_expression(tmp_path: Path) -> None:
    path = file_of(tmp_path, '[limits.high]\nwhere = "value_double > 3"\n')
    assert read_limits(path) == [Limit("high", "value_double > 3")]


def test_a_limit_says_whether_its_alarms_are_published(tmp_path: Path) -> None:
    path = file_of(tmp_path, '[limits.high]\nwhere = "value_double > 3"\npublish = true\n')
    assert read_limits(path) == [Limit("high", "value_double > 3", publish=True)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[limits.high]\n", "needs where"),
        ('[limits.high]\nwhere = "true"\nwhen = "x"\n', "when is not known"),
        ("[limits.high]\nwhere = 3\n", "Expected `str`"),
        ('[limits.high]\nwhere = "true"\npublish = "yes"\n', "Expected `bool`"),
        ('[limit.high]\nwhere = "true"\n', "limit is not known; did you mean limits"),
        ("[limits", "is not TOML"),
    ],
)
def test_a_file_that_is_none_of_limits_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_limits(file_of(tmp_path, text))


def test_a_file_that_is_absent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_limits(tmp_path / "absent.toml")


def told(*rows: dict[str, Any]) -> pa.Table:
    """Notifications of an agent psu and a topic v, unless a row says otherwise, numbered from 1."""
    usual = {"name": "psu", "topic": "v", "publisher": "a"}
    return pa.Table.from_pylist(
        [usual | {"sequence": n} | row for n, row in enumerate(rows, 1)], NOTIFICATIONS
    )


def violated(rows: pa.Table, *limits: Limit) -> list[tuple[object, ...]]:
    alarms = AlarmRules(limits).judge(rows)
    assert alarms.schema == ALARMS
    return [(row["rule"], row["sequence"], row["value"]) for row in alarms.to_pylist()]


NUMBERS = told({"value_double": 1.5}, {"value_long": 5}, {}, {"value_string": "high"}, {"value_double": 7.5})


def test_a_true_expression_is_a_violation_and_null_is_none() -> None:
    limit = Limit("high", "coalesce(value_double, value_long) > 4")
    assert violated(NUMBERS, limit) == [("high", 2, 5.0), ("high", 5, 7.5)]


def test_an_alarm_says_which_notification_violates_what() -> None:
    rules = AlarmRules([Limit("high", "value_double > 7", message="too much", severity="critical")])
    (alarm,) = rules.judge(NUMBERS).to_pylist()
    about = {"rule": "high", "severity": "critical", "message": "too much", "name": "psu", "topic": "v"}
    assert {name: alarm[name] for name in about} == about


def test_an_alarm_without_a_message_says_the_expression() -> None:
    (alarm,) = AlarmRules([Limit("high", "value_double > 7")]).judge(NUMBERS).to_pylist()
    assert (alarm["message"], alarm["severity"]) == ("value_double > 7", "warning")


@pytest.mark.parametrize(
    ("patterns", "meant"),
    [
        ({"agent": "psu-?"}, [2]),
        ({"topic": "v"}, [1, 2]),
        ({"agent": "p*", "topic": "w*"}, [3]),
        ({"agent": ""}, [4]),
        ({"agent": "none"}, []),
    ],
)
def test_patterns_tell_which_agents_and_topics_are_meant(patterns: Any, meant: list[int]) -> None:
    rows = told({}, {"name": "psu-2"}, {"topic": "ww"}, {"name": None, "topic": "x"})
    found = violated(rows, Limit("any", "true", **patterns))
    assert [sequence for _, sequence, _ in found] == meant


def test_a_value_that_an_expression_cannot_use_gives_null() -> None:
    rows = told({"value_string": "three"}, {"value_string": "4"}, {"value_string": "5"})
    limit = Limit("high", "CAST(value_string AS DOUBLE) > 4", value="CAST(value_string || 'x' AS DOUBLE)")
    assert violated(rows, limit) == [("high", 3, None)]


@pytest.mark.parametrize("text", ["[31.5, 12.0]", "[31.5, NaN]", '[31.5, "twelve"]'])
def test_the_first_of_a_signals_arguments_can_be_judged(text: str) -> None:
    limit = Limit(
        "high", "CAST(value_json->>'$[0]' AS DOUBLE) > 30", value="CAST(value_json->>'$[0]' AS DOUBLE)"
    )
    assert violated(told({"value_json": text}), limit) == [("high", 1, 31.5)]


def test_the_value_of_an_alarm_is_no_column_of_its_condition() -> None:
    with pytest.raises(ConfigError, match='"value" not found'):
        AlarmRules([Limit("odd", "value > 3")]).check()


@pytest.mark.parametrize(
    "where",
    [
        "value_dubble > 4", "value_double >", "value_double", "true) OR (false", "value_double > 1, true",
        "sum(value_double) > 4", "(SELECT true)", "random() > 0.5", "nope(value_long)",
    ],
)  # fmt: skip
def test_what_is_no_condition_on_one_notification_is_refused_by_name(where: str) -> None:
    with pytest.raises(ConfigError, match="limit 'odd' cannot be judged"):
        AlarmRules([Limit("odd", where)]).check()


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="limit 'odd' cannot be judged"):
        AlarmRules([Limit("odd", "true", value="value_list")]).check()


@pytest.mark.parametrize(
    ("spark", "duckdb"),
    [
        ("get(from_json(value_json, 'ARRAY<DOUBLE>'), 0) > 30", "CAST(value_json->>'$[0]' AS DOUBLE) > 30"),
        ("from_json(value_json, 'ppm DOUBLE').ppm > 3", "CAST(value_json->>'$.ppm' AS DOUBLE) > 3"),
        ("get_json_object(value_json, '$.unit') = 'V'", "(value_json->>'$.unit') = 'V'"),
        ("value_string RLIKE '^a.*'", "regexp_matches(value_string, '^a.*')"),
        ("value_string not rlike 'a'", "NOT regexp_matches(value_string, 'a')"),
        ("get(value_list, 0) > 3", "value_list[1] > 3"),
        ("value_list[0] > 3", "value_list[1] > 3"),
        ("size(value_list) > 3", "len(value_list) > 3"),
        ("nvl(value_double, 0) > 3", "coalesce(value_double, 0) > 3"),
    ],
)
def test_what_only_spark_knows_is_refused_with_the_spelling_of_duckdb(spark: str, duckdb: str) -> None:
    with pytest.raises(ConfigError) as refused:
        AlarmRules([Limit("odd", spark)]).check()
    assert f"write where = {duckdb!r}" in str(refused.value)
    AlarmRules([Limit("fine", duckdb)]).check()


def test_rules_work_in_another_process_as_well() -> None:
    rules = AlarmRules([Limit("high", "value_double > 4")])
    before = rules.judge(NUMBERS)
    assert pickle.loads(pickle.dumps(rules)).judge(NUMBERS) == before


def test_the_earliest_alarms_of_announced_rules_are_told_and_all_are_counted() -> None:
    rules = AlarmRules([Limit("high", "value_double > 1"), Limit("quiet", "true")], ["high"])
    rows = told(*({"value_double": 2.0, "received_at": 1000 - n} for n in range(5)))
    earliest, announced = rules.announcements(rules.judge(rows), 2)
    assert ([alarm["sequence"] for alarm in earliest], announced) == ([5, 4], 5)
    assert {alarm["rule"] for alarm in earliest} == {"high"}


def test_without_limits_there_are_no_alarms() -> None:
    AlarmRules().check()
    assert violated(NUMBERS) == []
