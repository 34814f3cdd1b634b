"""What a report draws over time: numbers of each topic and key, its gaps and alarms; and the last arrays.

A million points are drawn as `POINTS`: the least, the mean and the greatest of each part of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...protocol.errors import PzcError
from ..snapshot import Tables

POINTS = 400
"""Parts of a panel's time; more points than this are drawn as the range of each part."""

PANELS = 40
"""Topics that are drawn; of more, those with the most numbers."""

KEYS = 6
"""Keys of a topic that are drawn, likewise."""

FIELDS = 32
"""Fields of a content that are looked at, where that is a dictionary."""

READ = 8
"""Arrays that are read out of the journal."""

MARKS = 200
"""Gaps and alarms that are marked in a panel."""

Times = NDArray[np.datetime64]
Numbers = NDArray[np.float64]


class Line(NamedTuple):
    """Numbers of one key, in order of time; ``least`` and ``greatest`` of those that a point stands for."""

    times: Times
    least: Numbers
    mean: Numbers
    greatest: Numbers


@dataclass(frozen=True)
class Panel:
    """The numbers of one agent and topic, or of one field of its contents where these are dictionaries.

    Attributes:
        agent: its name, or id.
        topic: as published; of a field ``topic.field``.
        count: of all numbers.
        lines: by key; empty text where there is none.
        more: keys that are not drawn.
        gaps: first and last time between which something is missing.
        alarms: time and value of each.
    """

    agent: str
    topic: str
    count: int
    lines: Mapping[str, Line]
    more: int = 0
    gaps: list[tuple[np.datetime64, np.datetime64]] = field(default_factory=list)
    alarms: list[tuple[np.datetime64, float]] = field(default_factory=list)


class Shot(NamedTuple):
    """The last array of an agent and topic."""

    agent: str
    topic: str
    time: np.datetime64
    values: Numbers


_AGENT = "coalesce(nullif(name, ''), publisher)"
_LAST = "least({}, timestamptz '9000-01-01 00:00:00+00')"
"""A clock may tell any time; plots need room behind the last one."""
_TIME = f"epoch_us({_LAST.format('coalesce(sent_at, received_at)')})"
_GREATEST = 1e300
"""Numbers beyond are not drawn: their differences are no numbers."""

# A signal's content is the list of its arguments, the new value, or a quantity, first.
_FIRST = r"""^\[\s*(?:\{"quantity": \[)?(-?[0-9][0-9.eE+-]*)\s*[,\]]"""
_NUMBER = f"""coalesce(value_double, value_long, value_bool::int, case when value_json like '[%' then
    try_cast(regexp_extract(value_json, '{_FIRST}', 1) as double) end)"""

# A content that is a dictionary, or a signal's first argument that is one.
_OBJECT = """case when value_json like '{%' then value_json when value_json like '[{%'
    then try(json_extract(value_json, '$[0]')::varchar) end"""
_FIELD = "[A-Za-z_][A-Za-z0-9_ -]{0,62}"

_NUMBERS = f"""rows as (select {_AGENT} agent, topic, coalesce(key, '') key, {_TIME} t, ({_NUMBER})::double v,
    {_OBJECT} object from notifications),
fields as (select agent, topic, unnest(try(json_keys(object))[1:{FIELDS}]) field, key, t, object
    from rows where v is null and object is not null),
numbers as materialized (select * from (select agent, topic, '' field, key, t, v from rows
    union all select agent, topic, field, key, t, try_cast(json_extract_string(object, field) as double)
        from fields where regexp_full_match(field, '{_FIELD}')
        and json_type(object, field) in ('DOUBLE', 'BIGINT', 'UBIGINT'))
    where abs(v) < {_GREATEST})"""

_LINES = f"""
with {_NUMBERS},
panels as (select agent, topic, field, count(*) count, min(t) start, max(t) - min(t) + 1 span,
    count(distinct key) keys
    from numbers group by agent, topic, field order by count desc, agent, topic, field limit {PANELS}),
chosen as (select agent, topic, field, key from numbers group by agent, topic, field, key
    qualify row_number() over (partition by agent, topic, field order by count(*) desc, key) <= {KEYS})
select agent, topic, field, key, any_value(p.count) count, any_value(p.keys) keys, avg(t)::bigint t,
    min(v) least, avg(v) mean, max(v) greatest
from numbers join panels p using (agent, topic, field) semi join chosen using (agent, topic, field, key)
group by agent, topic, field, key, (t - p.start) // ((p.span + {POINTS - 1}) // {POINTS})
order by agent, topic, field, key, t"""

_GAPS = f"""
with told as (select {_AGENT} agent, publisher, epoch, topic, first_missing - 1 before, last_missing + 1 after
    from gaps qualify row_number() over (partition by agent, topic order by count desc) <= {MARKS})
select g.agent, g.topic, epoch_us({_LAST.format("coalesce(b.sent_at, b.received_at)")}) t,
    epoch_us({_LAST.format("coalesce(a.sent_at, a.received_at, b.sent_at, b.received_at)")}) upto
from told g
join notifications b
    on (b.publisher, b.epoch, b.topic, b.sequence) = (g.publisher, g.epoch, g.topic, g.before)
left join notifications a
    on (a.publisher, a.epoch, a.topic, a.sequence) = (g.publisher, g.epoch, g.topic, g.after)
order by all"""

_ALARMS = f"""select {_AGENT} agent, topic, {_TIME} t, value from alarms where abs(value) < {_GREATEST}
    qualify row_number() over (partition by agent, topic order by t desc) <= {MARKS} order by all"""

_SHOTS = f"""select {_AGENT} agent, topic, {_TIME} t, recorder, "offset", dtype, shape, value_list, digest
    from notifications where len(shape) in (1, 2) and list_product(shape) > 1
        and (value_list is not null or min is not null)
    qualify row_number() over (partition by agent, topic order by t desc) = 1
    order by agent, topic limit {PANELS}"""


def panels(tables: Tables) -> list[Panel]:
    """What is to be drawn over time, by agent and topic; errors as `Tables.sql`."""
    gaps, alarms = dict(_grouped(tables, _GAPS)), dict(_grouped(tables, _ALARMS))
    made: list[Panel] = []
    for (agent, topic), found in _grouped(tables, _LINES):
        spans = [(_time(row["t"]), _time(row["upto"])) for row in gaps.get((agent, topic), [])]
        points = [(_time(row["t"]), row["value"]) for row in alarms.get((agent, topic), [])]
        for name, each in groupby(found, key=itemgetter("field")):
            rows = list(each)
            lines = {key: _line(list(some)) for key, some in groupby(rows, key=itemgetter("key"))}
            count, more = rows[0]["count"], rows[0]["keys"] - len(lines)
            # An alarm's value is of whichever field its limit looks at.
            told = f"{topic}.{name}" if name else topic
            made.append(Panel(agent, told, count, lines, more, spans, [] if name else points))
    return made


def shots(tables: Tables) -> list[Shot]:
    """The last array of each topic that its row or the journal has; errors as `Tables.sql`.

    Of large ones, which stand in the journal only, the first `READ` are looked for.
    """
    made: list[Shot] = []
    room = READ
    for (agent, topic), (row, *_) in _grouped(tables, _SHOTS):
        shape, listed = row["shape"], row["value_list"]
        room -= listed is None
        if room < 0:
            continue
        try:
            values = tables.array(row) if listed is None else np.array(listed).reshape(shape)
        except (PzcError, OSError, ValueError):  # an edited row, or a journal that is gone
            continue
        made.append(Shot(agent, topic, _time(row["t"]), values))
    return made


def _grouped(tables: Tables, query: str) -> Iterator[tuple[tuple[str, str], list[dict[str, Any]]]]:
    found = tables.sql(query).to_pylist()
    for key, rows in groupby(found, key=lambda row: (row["agent"], row["topic"])):
        yield key, list(rows)


def _line(rows: list[dict[str, Any]]) -> Line:
    times = np.array([row["t"] for row in rows], np.int64).astype("datetime64[us]")
    return Line(times, *(np.array([row[name] for row in rows]) for name in ("least", "mean", "greatest")))


def _time(micros: int) -> np.datetime64:
    return np.datetime64(micros, "us")
