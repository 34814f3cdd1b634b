"""The report: one self-contained HTML page of stored tables, and some of them for a terminal.

It knows no Spark, and loads nothing from a network: style and
plots are inside the page.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...protocol.errors import JournalError
from ..arrow import pa
from ..schema import GAPS, STATISTICS
from ..snapshot import Tables
from . import plots
from .series import Panel, Shot, panels, shots
from .texts import is_number, pd, show

TOPIC_COLUMNS = {
    "name": "agent", "topic": "topic", "epochs": "epochs", "count": "count", "missing": "missing",
    "rate_hz": "rate [Hz]", "age_mean_ms": "age mean [ms]", "age_p99_ms": "age p99 [ms]",
    "age_max_ms": "age max [ms]", "min": "min", "mean": "mean", "max": "max", "std": "std",
}  # fmt: skip
"""Columns of the statistics table that a report shows, and their headings."""

GAP_COLUMNS = {
    "name": "agent", "topic": "topic", "first_missing": "first", "last_missing": "last", "count": "count",
}  # fmt: skip
"""The same of the table of gaps."""

ROWS = 1000
"""Rows of a table that a page shows at most: each start of an agent is a publisher of its own."""

BARS = 40
"""Topics that have bars at most; of more, those with the most notifications."""

_QUARANTINE = ["name", "topic", "error", "reason"]
_ALARMS = ["rule", "severity", "name", "topic", "message", "received_at", "value"]

_STYLE = """
:root{color-scheme:light dark;--page:#f5f6f8;--card:#fff;--text:#1c2430;--quiet:#566070;--edge:#dfe3e8;
--good:#0b5d38;--well:#e2f3ea;--bad:#8f1d0c;--ill:#fde5e1}
@media(prefers-color-scheme:dark){:root{--page:#12161c;--card:#1b2129;--text:#e6eaf0;--quiet:#a3adba;--edge:#333c48;
--good:#8fe0b8;--well:#123a29;--bad:#ffb4a6;--ill:#4a1a13}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif}
main{max-width:1180px;margin:0 auto;padding:24px 16px 48px}
h1{margin:0 0 4px;font-size:1.7rem}h2{margin:0 0 12px;font-size:1.15rem}
section{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:18px 20px;
margin:18px 0}
.verdict{display:inline-block;padding:4px 12px;border-radius:99px;font-weight:600;margin:8px 0}
.good{background:var(--well);color:var(--good)}.bad{background:var(--ill);color:var(--bad)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.85rem}
caption{text-align:left;color:var(--quiet);padding-bottom:6px}
td .verdict{margin:0}th,td{padding:6px 8px;text-align:left;border-bottom:1px solid var(--edge)}
td:not(.n){min-width:8em}
thead th{border-bottom:2px solid var(--edge);white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
figure{margin:0 0 14px}
@media(prefers-color-scheme:dark){img[src^="data:image/svg"]{filter:invert(.9) hue-rotate(180deg)}}
img{width:100%;max-width:940px;height:auto;display:block;background:#fff;border-radius:6px}
figure.shot img{max-width:520px}figcaption,.note,dt{color:var(--quiet);font-size:.9rem}.note{margin:0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:8px 0 0;align-items:baseline}
dd{margin:0}
"""


@dataclass(frozen=True)
class Check:
    """One thing that had to hold.

    Attributes:
        name: what was checked, as a short sentence.
        expected: what should have come out.
        got: what came out.
        ok: whether it held; decided by who made the check.
    """

    name: str
    expected: object
    got: object
    ok: bool


@dataclass
class Results:
    """Everything that a report shows. What is None or empty is said to be absent.

    Attributes:
        checks: shown first; the report is good when there are some and all are ok.
        statistics: rows of `schema.STATISTICS`.
        sections: further ones, headings and HTML.
        gaps: rows of `schema.GAPS`.
        alarms: rows of `schema.ALARMS`; None says nothing of limits.
        quarantine: columns ``name topic error reason`` at least.
        facts: label to text, shown under the title (machine, duration, versions).
        series: numbers over time, by topic.
        shots: last arrays, by topic.
    """

    checks: Sequence[Check] = ()
    statistics: pd.DataFrame | None = None
    sections: Sequence[tuple[str, str]] = ()
    gaps: pd.DataFrame | None = None
    alarms: pd.DataFrame | None = None
    quarantine: pd.DataFrame | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    series: Sequence[Panel] = ()
    shots: Sequence[Shot] = ()

    @property
    def ok(self) -> bool:
        """True when there are checks and all of them hold."""
        return bool(self.checks) and all(check.ok for check in self.checks)


def stored_results(directory: str | Path) -> Results:
    """The tables of a pipeline, for `report.write_report`.

    Raises:
        JournalError: when there are no tables, or one cannot be read.
    """
    tables = Tables(directory)
    statistics = _columns(tables, "statistics", STATISTICS.names)
    gaps = _columns(tables, "gaps", GAPS.names)
    quarantine = _columns(tables, "quarantine", _QUARANTINE)
    alarms = _columns(tables, "alarms", _ALARMS) if (tables.directory / "alarms").is_dir() else None
    facts = {
        "agents": str(statistics["publisher"].nunique()),
        "notifications": str(int(statistics["count"].sum())),
        "missing": str(int(statistics["missing"].sum())),
        "in quarantine": str(len(quarantine)),
        "alarms": "none were looked for" if alarms is None else str(len(alarms)),
    }
    if len(statistics):
        facts["sent"] = f"{show(statistics['first_sent'].min())} to {show(statistics['last_sent'].max())} UTC"
    return Results(
        statistics=statistics.sort_values(["name", "topic"]),
        gaps=gaps,
        quarantine=quarantine,
        alarms=alarms,
        facts=facts,
        series=panels(tables),
        shots=shots(tables),
    )


def _columns(tables: Tables, name: str, columns: list[str]) -> pd.DataFrame:
    try:
        return tables[name].to_table(columns).to_pandas()
    except (OSError, pa.ArrowException) as exc:
        raise JournalError(f"table {name} in {tables.directory} cannot be read: {exc}") from exc


def write_report(directory: str | Path, results: Results, *, title: str = "Lab report") -> Path:
    """Write ``index.html`` and return its path.

    Args:
        directory: created when absent; an older report in it is replaced at once.
        results: what to show.
        title: heading of the page.

    Raises:
        OSError: when it cannot be written.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    page, temporary = folder / "index.html", folder / ".index.html.tmp"
    temporary.write_text(_page(results, title), encoding="utf-8")
    os.replace(temporary, page)
    return page


def _page(results: Results, title: str) -> str:
    verdict = "all checks passed"
    if any(not check.ok for check in results.checks):
        verdict = f"{sum(not check.ok for check in results.checks)} of {len(results.checks)} checks failed"
    facts = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in results.facts.items())
    badge = f'<p class="verdict {"good" if results.ok else "bad"}">{escape(verdict)}</p>'
    said = badge if results.checks else ""  # stored tables alone are neither good nor bad
    sections = [
        *([_section("Checks", _checks(results.checks))] if results.checks else []),
        _section("Topics", _topics(results.statistics)),
        *_plots(results),
        *([] if results.alarms is None else [_section("Alarms", _alarms(results.alarms))]),
        _section("Gaps", _gaps(results.gaps)),
        _section("Quarantine", _quarantine(results.quarantine)),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main><header><h1>{escape(title)}</h1>"
        f"{said}<dl>{facts}</dl></header>\n{chr(10).join(sections)}\n</main></body></html>\n"
    )


def _plots(results: Results) -> list[str]:
    panels = [
        *results.sections,
        ("Values over time", _series(results.series, results.shots)),
        ("Rate per topic", _topic_bars(results.statistics, {"rate": "rate_hz"}, "Hz")),
        (
            "Age per topic",
            _topic_bars(results.statistics, {"mean": "age_mean_ms", "p99": "age_p99_ms"}, "ms"),
        ),
    ]
    return [_section(heading, body) for heading, body in panels]


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>{body}</section>"


def note(text: str) -> str:
    """A line as HTML, in place of a picture that there is not."""
    return f'<p class="note">{escape(text)}</p>'


def drawn(uri: str, alt: str, caption: str = "", kind: str = "") -> str:
    """A picture as HTML.

    Args:
        uri: of `plots.svg` or `plots.png`.
        alt: what it shows, in words.
        caption: below it, default the same.
        kind: class of the style sheet.
    """
    legend = f"<figcaption>{escape(caption or alt)}</figcaption>"
    mark = f' class="{kind}"' if kind else ""
    return f'<figure{mark}><img src="{uri}" alt="{escape(alt)}">{legend}</figure>'


def _table(headers: Sequence[str], every: Iterable[Sequence[object]], caption: str) -> str:
    rows = iter(every)
    cells = [list(row) for row in islice(rows, ROWS)]
    if more := sum(1 for _ in rows):
        caption += f" The first {ROWS} rows; further ones: {more}."
    number = [bool(cells) and all(is_number(row[i]) for row in cells) for i in range(len(headers))]
    mark = [' class="n"' if right else "" for right in number]
    head = "".join(f'<th scope="col"{m}>{escape(h)}</th>' for h, m in zip(headers, mark, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{m}>{_cell(cell)}</td>" for cell, m in zip(row, mark, strict=True)) + "</tr>"
        for row in cells
    )
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return f'<span class="verdict {"good" if value else "bad"}">{"✓ ok" if value else "✗ failed"}</span>'
    return escape(show(value))


def _checks(checks: Sequence[Check]) -> str:
    rows = [(check.name, show(check.expected), show(check.got), check.ok) for check in checks]
    return _table(("check", "expected", "got", "result"), rows, "What had to hold, and what came out.")


def topic_table(statistics: pd.DataFrame) -> pd.DataFrame:
    """Statistics as they are shown: some columns, with headings for people."""
    present = [name for name in TOPIC_COLUMNS if name in statistics]
    return pd.DataFrame({TOPIC_COLUMNS[name]: statistics[name].astype(object) for name in present})


def _topics(statistics: pd.DataFrame | None) -> str:
    if statistics is None or statistics.empty:
        return note("No notifications.")
    shown = topic_table(statistics)
    caption = "Verified notifications after deduplication; age is received minus sent."
    return _table(list(shown.columns), shown.itertuples(index=False), caption)


def _gaps(frame: pd.DataFrame | None) -> str:
    if frame is None or frame.empty:
        return note("Nothing is missing.")
    headings = [*GAP_COLUMNS.values()]
    return _table(headings, frame[[*GAP_COLUMNS]].astype(object).itertuples(index=False), "Missing numbers.")


def _alarms(frame: pd.DataFrame) -> str:
    if frame.empty:
        return note("No limit was violated.")
    grouped: Any = frame.groupby(["rule", "severity", "name", "topic", "message"], dropna=False)
    ends = [(column, end) for column in ("received_at", "value") for end in ("min", "max")]
    rows = [
        (*what, len(found), *(getattr(found[column], end)() for column, end in ends))
        for what, found in grouped
    ]
    heads = ["limit", "severity", "agent", "topic", "message", "count", "first", "last", "lowest", "highest"]
    return _table(heads, rows, "Notifications that violated a limit.")


def _quarantine(frame: pd.DataFrame | None) -> str:
    if frame is None or frame.empty:
        return note("Every recorded message verified and decoded.")
    counted = Counter(zip(*(frame[column] for column in _QUARANTINE), strict=True)).most_common()
    rows = [(*what, count) for what, count in counted]
    return _table((*_QUARANTINE, "count"), rows, "Recorded messages that did not verify or decode.")


def _series(series: Sequence[Panel], shots: Sequence[Shot]) -> str:
    if not series and not shots:
        return note("No numbers.")
    pictures = [drawn(plots.svg(plots.over_time(panel)), _said(panel)) for panel in series]
    for shot in shots:
        size = " by ".join(map(str, shot.values.shape))
        when = str(shot.time.astype("datetime64[s]")).replace("T", " ")
        said = show(f"Last array of {shot.agent} {shot.topic}: {size}, {when} UTC.")
        if shot.values.ndim == 1:
            pictures.append(drawn(plots.svg(plots.curve(shot)), said))
        else:
            pictures.append(drawn(plots.png(plots.image(shot.values)), said, kind="shot"))
    return "".join(pictures)


def _said(panel: Panel) -> str:
    least = min(line.least.min() for line in panel.lines.values())
    greatest = max(line.greatest.max() for line in panel.lines.values())
    counts = {"gaps": len(panel.gaps), "alarms": len(panel.alarms), "keys that are not drawn": panel.more}
    more = "".join(f"; {what}: {count}" for what, count in counts.items() if count)
    span = f"numbers from {show(float(least))} to {show(float(greatest))}"
    what = f"number, {show(float(least))}" if panel.count == 1 else span
    return show(f"{panel.agent} {panel.topic}: {panel.count} {what}{more}.")


def _topic_bars(statistics: pd.DataFrame | None, columns: Mapping[str, str], unit: str) -> str:
    if statistics is None or statistics.empty:
        return note("No notifications.")
    chosen = np.sort(np.argsort(-statistics["count"].to_numpy(float), kind="stable")[:BARS])
    more, some = len(statistics) - len(chosen), statistics.iloc[chosen]
    names: Any = some[["name", "publisher", "topic"]].itertuples(index=False)
    labels = [show(f"{name or publisher}  {topic}") for name, publisher, topic in names]
    groups = {legend: some[column].astype(float).tolist() for legend, column in columns.items()}
    if not any(number > 0 for numbers in groups.values() for number in numbers):
        return note("No topic has one above 0.")
    left_out = f" Topics that are not drawn: {more}." if more else ""
    said = "; ".join(
        f"{label}: " + ", ".join(f"{legend} {show(numbers[i])} {unit}" for legend, numbers in groups.items())
        for i, label in enumerate(labels)
    )
    return drawn(plots.svg(plots.bars(labels, groups, unit)), said, f"Logarithmic scale, {unit}.{left_out}")
