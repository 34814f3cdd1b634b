"""Limits: what a file may say, and which notifications violate what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pzc.pipeline.schema import ALARMS
from pzc.pipeline.spark.limits import Limit, read_limits, violations
from pzc.protocol.errors import ConfigError

from tests.pipeline.conftest import facts


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
        ('[limits.high]\nwhere = "true"\nwhen = "x"\n', r"has \['when'\]"),
        ("[limits.high]\nwhere = 3\n", "no text"),
        ('[limits.high]\nwhere = "true"\npublish = "yes"\n', "neither true nor false"),
        ('[limit.high]\nwhere = "true"\n', r"found \['limit'\]"),
        ("[limits", "cannot be read"),
    ],
)
def test_a_file_that_is_none_of_limits_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_limits(file_of(tmp_path, text))


def test_a_file_that_is_absent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_limits(tmp_path / "absent.toml")


SPARK = [
    pytest.mark.java,
    pytest.mark.timeout(180),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]


class TestViolations:
    pytestmark = SPARK

    @pytest.fixture
    def rows(self, notifications: Any, make_sender: Any) -> Any:
        contents = [1.5, 5, None, "high", 7.5]
        return notifications(
            [*make_sender("psu").rows("v", contents, 1), *make_sender("psu-2").rows("w", contents, 1)]
        )

    def test_a_true_expression_is_a_violation_and_null_is_none(self, rows: Any) -> None:
        limits = [Limit("high", "coalesce(value_double, value_long) > 4", agent="psu", message="too much")]
        found = facts(violations(rows, limits), "rule", "name", "topic", "sequence", "value", "message")
        assert found == [
            ("high", "psu", "v", 2, 5.0, "too much"),
            ("high", "psu", "v", 5, 7.5, "too much"),
        ]

    def test_patterns_tell_which_agents_and_topics_are_meant(self, rows: Any) -> None:
        limits = [
            Limit("one", "value_long = 5", agent="psu-?"),
            Limit("two", "value_long = 5", topic="v"),
            Limit("all", "value_long = 5", agent="p*"),
        ]
        found = facts(violations(rows, limits), "rule", "name")
        assert found == [("all", "psu"), ("all", "psu-2"), ("one", "psu-2"), ("two", "psu")]

    @pytest.mark.parametrize("where", ["value_dubble > 4", "value_double >", "value_double"])
    def test_an_expression_that_cannot_be_judged_names_its_limit(self, rows: Any, where: str) -> None:
        with pytest.raises(ConfigError, match="limit 'odd' cannot be judged"):
            violations(rows, [Limit("odd", where)])

    def test_without_limits_there_are_no_alarms(self, rows: Any) -> None:
        found = violations(rows, [])
        assert (found.columns, found.count()) == (ALARMS.names, 0)
