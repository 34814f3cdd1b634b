"""Limits: SQL expressions in a TOML file, and the rows that violate them.

::

    [limits.over_voltage]
    agent = "psu*"                      # pattern of names, default every agent
    topic = "voltage_changed"           # pattern, default every topic
    where = "value_double > 30"         # true for a violation; null is none
    value = "value_double"              # what the alarm shows; default the numeric value
    message = "more than 30 V"          # default the expression
    severity = "critical"               # any word, default "warning"
    publish = true                      # the pipeline's own agent publishes its alarms; default false

An expression sees the columns of the notifications table. Alarms follow from the stored notifications
alone, so a second run gives the same ones.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from ...protocol.errors import ConfigError
from .. import missing
from ..schema import ALARMS

try:
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as fn
except ImportError as exc:
    raise missing("pyspark") from exc

NUMBER = "coalesce(value_double, cast(value_long AS DOUBLE))"
"""The numeric value of a notification, in SQL."""


@dataclass(frozen=True)
class Limit:
    """One limit; see the module's docstring.

    Attributes:
        rule: its name, unique in a file.
        where: SQL, true for a violation.
        agent: pattern of names of agents.
        topic: pattern of topics.
        value: SQL, the number that the alarm shows.
        message: what the alarm says.
        severity: a word.
        publish: whether the pipeline's own agent publishes its alarms.
    """

    rule: str
    where: str
    agent: str = "*"
    topic: str = "*"
    value: str = NUMBER
    message: str = ""
    severity: str = "warning"
    publish: bool = False


def read_limits(path: str | Path) -> list[Limit]:
    """The limits of a TOML file.

    Raises:
        ConfigError: when it cannot be read, or is no file of limits; says where.
    """
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"limits {path} cannot be read: {exc}") from exc
    table = found.pop("limits", {})
    if found or not isinstance(table, dict):
        raise ConfigError(f"limits {path}: expected tables [limits.NAME], found {sorted(found) or 'a value'}")
    return [_limit(f"limits {path}", name, entry) for name, entry in table.items()]


def _limit(source: str, name: str, entry: Any) -> Limit:
    if not isinstance(entry, dict):
        raise ConfigError(f"{source}: [limits.{name}] is no table")
    if not isinstance(entry.get("publish", False), bool):
        raise ConfigError(f"{source}: publish of [limits.{name}] is neither true nor false")
    if not all(isinstance(value, str) for key, value in entry.items() if key != "publish"):
        raise ConfigError(f"{source}: [limits.{name}] holds something that is no text")
    known = set(Limit.__dataclass_fields__) - {"rule"}
    if unknown := sorted(set(entry) - known):
        raise ConfigError(f"{source}: [limits.{name}] has {unknown}, expected {sorted(known)}")
    if not entry.get("where", "").strip():
        raise ConfigError(f'{source}: [limits.{name}] needs where = "SQL that is true for a violation"')
    return Limit(name, **entry)


def violations(rows: DataFrame, limits: Iterable[Limit]) -> DataFrame:
    """One row per notification and limit that it violates (`schema.ALARMS`).

    Args:
        rows: deduplicated notifications.
        limits: of `read_limits`.

    Raises:
        ConfigError: for an expression that SQL or the columns do not allow; names the limit.
    """
    found = [_violations(rows, limit) for limit in limits]
    nothing = _alarms(rows.limit(0), Limit("", "false"))
    return reduce(DataFrame.unionByName, found) if found else nothing


def _violations(rows: DataFrame, limit: Limit) -> DataFrame:
    named = rows.where(fn.coalesce("name", fn.lit("")).rlike(_regex(limit.agent)))
    try:
        return _alarms(named.where(fn.col("topic").rlike(_regex(limit.topic))).where(limit.where), limit)
    except AnalysisException as exc:
        reason = str(exc).strip().partition("\n")[0]
        raise ConfigError(f"limit {limit.rule!r} cannot be judged: {reason}") from None


def _alarms(rows: DataFrame, limit: Limit) -> DataFrame:
    told = {
        "rule": fn.lit(limit.rule),
        "severity": fn.lit(limit.severity),
        "message": fn.lit(limit.message or limit.where),
        "value": fn.expr(limit.value).cast("double"),
    }
    return rows.select(*(told.get(name, fn.col(name)).alias(name) for name in ALARMS.names))


def _regex(pattern: str) -> str:
    """Java's form of a pattern of names."""
    body = re.sub(r"\\[zZ]$", "", fnmatch.translate(pattern))
    return rf"\A{body}\z"
