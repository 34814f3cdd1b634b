"""Alarm rules: SQL expressions in a TOML file, and the notifications that violate them.

::

    [limits.over_voltage]
    agent = "psu*"                      # pattern of names, default every agent
    topic = "voltage_changed"           # pattern, default every topic
    where = "value_double > 30"         # true for a violation; null is none
    value = "value_double"              # what the alarm shows; default the numeric value
    message = "more than 30 V"          # default the expression
    severity = "critical"               # any word, default "warning"
    publish = true                      # the pipeline's own agent publishes its alarms; default false

An expression is SQL of DuckDB over the columns of one notification. Alarms follow from the stored
notifications alone, so a second run gives the same ones.
"""

from __future__ import annotations

import fnmatch
import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..protocol.errors import ConfigError
from ..protocol.toml import made, parsed, read_file
from . import sql
from .arrow import pa, pc
from .schema import ALARMS, NOTIFICATIONS

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger("pzc.pipeline")

NUMBER = "coalesce(value_double, CAST(value_long AS DOUBLE))"
"""The numeric value of a notification, in SQL."""

_COPIED = [name for name in ALARMS.names if name not in ("rule", "severity", "message", "value")]
_ROWS = "_notifications"
_NO_NUMBERS = {"list", "array", "struct", "map", "union", "timestamp with time zone"}


_TEXT = r"'[^']*'"
_SPELLINGS = (
    (r"get\(\s*from_json\(\s*(\w+)\s*,\s*'ARRAY<(\w+)>'\s*\)\s*,\s*(\d+)\s*\)", r"CAST(\1->>'$[\3]' AS \2)"),
    (r"from_json\(\s*(\w+)\s*,\s*'`?(\w+)`?:?\s+(\w+)'\s*\)\.`?\2`?", r"CAST(\1->>'$.\2' AS \3)"),
    (rf"get_json_object\(\s*(\w+)\s*,\s*({_TEXT})\s*\)", r"(\1->>\2)"),
    (rf"(\w+)\s+not\s+rlike\s+({_TEXT})", r"NOT regexp_matches(\1, \2)"),
    (rf"(\w+)\s+(?:rlike|regexp)\s+({_TEXT})", r"regexp_matches(\1, \2)"),
    (r"\b(?:rlike|regexp|regexp_like)\(", "regexp_matches("),
    (r"\b(?:size|array_size)\(", "len("),
    (r"\b(?:nvl|ifnull)\(", "coalesce("),
    (r"\bstartswith\(", "starts_with("),
    (r"\bendswith\(", "ends_with("),
    (r"\bunix_micros\(", "epoch_us("),
    (r"\bunix_millis\(", "epoch_ms("),
    (r"\bunix_(?:seconds|timestamp)\(", "epoch("),
    (r"`([^`]*)`", r'"\1"'),
)
_PLACE = r"\bget\(\s*(\w+)\s*,\s*(\d+)\s*\)|\b(value_list|shape)\s*\[\s*(\d+)\s*\]"


class Limit(msgspec.Struct, frozen=True):
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


class _Tables(msgspec.Struct):
    limits: dict[str, dict[str, Any]] = {}


def read_limits(path: str | Path) -> list[Limit]:
    """The limits of a TOML file.

    Raises:
        ConfigError: when it cannot be read, or is no file of limits; says where.
    """
    where = f"limits {path}"
    tables = made(_Tables, parsed(read_file(Path(path), where), where), where).limits
    return [_limit(f"{where}: [limits.{name}]", name, entry) for name, entry in tables.items()]


def _limit(where: str, name: str, entry: dict[str, Any]) -> Limit:
    if not str(entry.get("where", "")).strip():
        raise ConfigError(f'{where} needs where = "SQL that is true for a violation"')
    return made(Limit, {**entry, "rule": name}, where)


class LimitsFile(NamedTuple):
    """Where rules were read, and what tells of an edit.

    Attributes:
        path: of the file.
        everything: as `checked_rules`.
        written: of `_written`, before it was read.
    """

    path: Path
    everything: bool
    written: tuple[int, ...]


class AlarmRules:
    """Limits that are judged; picklable, for the workers.

    Args:
        limits: of `read_limits`.
        announced: rules whose alarms are told to whoever wants them.
        file: that they were read from, for `current`.
    """

    def __init__(
        self,
        limits: Iterable[Limit] = (),
        announced: Iterable[str] = (),
        file: LimitsFile | None = None,
    ) -> None:
        self.limits, self.announced, self._file = tuple(limits), frozenset(announced), file
        self._connection: duckdb.DuckDBPyConnection | None = None

    def __bool__(self) -> bool:
        return bool(self.limits)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_connection": None}

    def current(self) -> AlarmRules:
        """The rules as their file has them now; these while it is as it was, or wrong, which is logged."""
        file = self._file
        if file is not None and (written := _written(file.path)) != file.written:
            self._file = file._replace(written=written)
            try:
                return checked_rules(file.path, everything=file.everything)
            except ConfigError as exc:
                log.error("%s; the limits from before the edit stay", exc)
        return self

    def check(self) -> None:
        """Let SQL look at the limits, before anything is judged.

        Raises:
            ConfigError: for an expression that SQL or the columns do not allow; names the limit, and how
                DuckDB spells what was written for Spark.
            MissingRequirement: when there are limits and no DuckDB.
        """
        if not self.limits:
            return
        with sql.connection() as connection:
            connection.register(_ROWS, NOTIFICATIONS.empty_table())
            for limit in self.limits:
                _check(connection, limit.rule, "where", limit.where)
                _check(connection, limit.rule, "value", limit.value)

    def judge(self, rows: pa.Table) -> pa.Table:
        """The alarms (`schema.ALARMS`) of some notifications (`schema.NOTIFICATIONS`), limit by limit.

        A value that an expression cannot use gives null.
        """
        found = [self._violations(rows, limit) for limit in self.limits]
        return pa.concat_tables([ALARMS.empty_table(), *found])

    def announcements(self, alarms: pa.Table, most: int) -> tuple[list[dict[str, Any]], int]:
        """The earliest of those that are to be told, at most ``most``, and how many there are."""
        told = alarms.filter(pc.is_in(alarms.column("rule"), pa.array(sorted(self.announced), pa.string())))
        in_order = told.sort_by([("received_at", "ascending"), ("sequence", "ascending")])
        return in_order.slice(0, most).to_pylist(), told.num_rows

    def _violations(self, rows: pa.Table, limit: Limit) -> pa.Table:
        names, topics = _allowed(rows, "name", limit.agent), _allowed(rows, "topic", limit.topic)
        if not (names and topics):
            return ALARMS.empty_table()
        found = self._asked(rows, _query(limit), [names, topics])
        told: dict[str, Any] = dict(zip([*_COPIED, "value"], found.columns, strict=True))
        texts = {"rule": limit.rule, "severity": limit.severity, "message": limit.message or limit.where}
        told |= {
            name: pa.repeat(pa.scalar(text, pa.string()), found.num_rows) for name, text in texts.items()
        }
        return pa.table([told[name] for name in ALARMS.names], names=ALARMS.names).cast(ALARMS)

    def _asked(self, rows: pa.Table, query: str, parameters: Sequence[object]) -> pa.Table:
        if self._connection is None:
            self._connection = sql.connection(threads=1)
        self._connection.register(_ROWS, rows)
        try:
            return self._connection.sql(query, params=parameters).to_arrow_table()
        finally:
            self._connection.unregister(_ROWS)


def _query(limit: Limit) -> str:
    """What gives the columns of the alarms, and their values last; parameters are the names and topics."""
    columns = ", ".join(f'"{name}"' for name in _COPIED)
    # The condition could take a name of the value for a column; CASE judges only the rows that are meant.
    value = f"TRY(CAST({_whole(limit.value)} AS DOUBLE))"
    meant = "list_contains(?, coalesce(name, '')) AND list_contains(?, topic)"
    where = f"CASE WHEN {meant} THEN TRY({_whole(limit.where)}) END"
    return f"SELECT {columns}, {value} FROM {_ROWS} WHERE {where}"


def _whole(text: str) -> str:
    return f"(\n{text}\n)"  # lines of their own: a comment ends with its line


def _check(connection: duckdb.DuckDBPyConnection, rule: str, field: str, text: str) -> None:
    """Refuse a text that is no expression over one notification."""
    problem = _problem(connection, field, text) or _from_zero(text)
    if problem is None:
        return
    other = _spelled(text)
    if other != text and _problem(connection, field, other) is None:
        problem += f"; limits are SQL of DuckDB: write {field} = {other!r}"
    raise ConfigError(f"limit {rule!r} cannot be judged: {problem}")


def _problem(connection: duckdb.DuckDBPyConnection, field: str, text: str) -> str | None:
    import duckdb

    try:
        duckdb.SQLExpression(text)
        kind, _ = connection.sql(f"SELECT {_whole(text)}, TRY({_whole(text)}) FROM {_ROWS}").types
    except duckdb.Error as exc:
        return sql.line(exc)
    if field == "where" and kind.id != "boolean":
        return f"{text!r} is {kind} and no condition"
    return f"{text!r} is {kind} and no number" if kind.id in _NO_NUMBERS else None


def _spelled(text: str) -> str:
    """The expression with what only Spark knows put as DuckDB has it; the same text when there is nothing."""
    for pattern, other in _SPELLINGS:
        text = re.sub(pattern, other, text, flags=re.IGNORECASE)
    return re.sub(_PLACE, _counted_from_one, text, flags=re.IGNORECASE)


def _counted_from_one(found: re.Match[str]) -> str:
    of, place = found[1] or found[3], found[2] or found[4]
    return f"{of}[{int(place) + 1}]"


def _from_zero(text: str) -> str | None:
    """What is wrong with an expression that asks for the element 0 of a list, which DuckDB does not have."""
    found = re.search(r"\b(?:value_list|shape)\s*\[\s*0\s*\]", text, flags=re.IGNORECASE)
    return f"{found[0]!r} is null: lists count from 1" if found else None


def _allowed(rows: pa.Table, column: str, pattern: str) -> list[str]:
    """The texts of a column that a pattern of names allows; a null is an empty one."""
    allowed = re.compile(fnmatch.translate(pattern)).match
    texts = {text or "" for text in rows.column(column).unique().to_pylist()}
    return sorted(text for text in texts if allowed(text))


def checked_rules(path: Path | None, *, everything: bool = False) -> AlarmRules:
    """The limits of a file, none without one, which SQL has looked at.

    Args:
        path: of the file.
        everything: announce the alarms of all, not only of those with ``publish``.

    Raises:
        ConfigError: for a file or an expression that is wrong.
        MissingRequirement: when there are limits and no DuckDB.
    """
    # Looked at before it is read: an edit in the middle of that is seen the next time.
    file = None if path is None else LimitsFile(path, everything, _written(path))
    limits = () if path is None else tuple(read_limits(path))
    announced = [limit.rule for limit in limits if limit.publish or everything]
    rules = AlarmRules(limits, announced, file)
    rules.check()
    return rules


def _written(path: Path) -> tuple[int, ...]:
    """What changes with an edit of a file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
