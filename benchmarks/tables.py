"""Tables of the benchmark in Markdown, for the terminal and for the page of the documentation."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import AnyCase, Bar
from benchmarks.rounds import Outcome

HEADINGS = ("case", "ours", "compared with", "takes", "ratio", "bar", "met")
PAGE_COLUMNS = 5
"""Of these a page of the manual shows."""


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up on a terminal."""
    lines = [list(headings), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def spread(values: Sequence[float], unit: str) -> str:
    """Median, lowest and highest of the rounds, in a unit that reads well."""
    middle = statistics.median(values)
    if unit == "us" and middle >= 1000:
        values, unit, middle = [value / 1000 for value in values], "ms", middle / 1000
    digits = 0 if unit.endswith("/s") else 2 if middle < 10 else 1
    shown = unit.replace("us", "µs").strip()
    text = f"{middle:.{digits}f} {shown}".strip()
    return f"{text} ({min(values):.{digits}f}-{max(values):.{digits}f})" if len(values) > 1 else text


def summary(case: AnyCase, outcome: Outcome) -> str:
    """One line per case while the run goes on: what everybody took."""
    shown = [
        f"{contender.title} {spread(outcome.values[name], case.unit)}"
        if name in outcome.values
        else f"{contender.title}: {_why_not(outcome, name)}"
        for name, contender in case.members.items()
    ]
    return f"{case.key}, {'pinned' if outcome.pinned else 'not pinned'}: {'; '.join(shown)}"


def _why_not(outcome: Outcome, name: str) -> str:
    return "not installed" if name in outcome.absent else "failed"


def ratios(case: AnyCase, bar: Bar, outcome: Outcome) -> list[float]:
    """Ours divided by the rival's, round by round; nothing when either is missing."""
    ours, rivals = case.values(bar.ours, outcome.values), case.values(bar.rival, outcome.values)
    return [our / rival for our, rival in zip(ours, rivals, strict=False)]


def verdict(case: AnyCase, bar: Bar, outcome: Outcome) -> bool | None:
    """Whether a bar is met by the median of the rounds; None when there is none, or nothing to judge."""
    judged = ratios(case, bar, outcome) if bar.rival else case.values(bar.ours, outcome.values)
    if bar.limit is None or not judged:
        return None
    middle = statistics.median(judged)
    return middle >= bar.limit if bar.at_least else middle <= bar.limit


def row(case: AnyCase, bar: Bar, outcome: Outcome) -> list[str]:
    """One line of the table."""
    ours = case.values(bar.ours, outcome.values)
    rivals = case.values(bar.rival, outcome.values)
    ratio = ratios(case, bar, outcome)
    title = case.title
    if bar.ours != "ours":
        title += f" ({case.name_of(bar.ours, outcome.values)})"
    met = verdict(case, bar, outcome)
    return [
        title,
        spread(ours, case.unit) if ours else _why_not(outcome, bar.ours),
        case.name_of(bar.rival, outcome.values) if bar.rival else "-",
        spread(rivals, case.unit) if rivals else _why_not(outcome, bar.rival) if bar.rival else "-",
        spread(ratio, "") if ratio else "-",
        _bar_text(case, bar),
        {True: "yes", False: "**no**", None: "-"}[met],
    ]


def _bar_text(case: AnyCase, bar: Bar) -> str:
    if bar.limit is None:
        return "-"
    unit = "x" if bar.rival else case.unit.replace("us", "µs")
    number = str(float(bar.limit)) if bar.rival else f"{bar.limit:g}"
    return f"{'≥' if bar.at_least else '≤'} {number} {unit}"


def results(
    cases: Sequence[AnyCase],
    machine: dict[str, Any],
    load: str,
    rounds: int,
    outcomes: Sequence[Outcome],
    *,
    page: bool = False,
) -> str:
    """Everything that a run has to say: the machine, and a table for each way of placing processes.

    Args:
        cases: in the order of the table.
        machine: where it ran.
        load: of the machine beside the run.
        rounds: turns of every library.
        outcomes: of the cases that ran.
        page: for readers of the manual: measurements and comparisons without bars and earlier versions.
    """
    columns = PAGE_COLUMNS if page else len(HEADINGS)
    parts = [machine_line(machine, load, rounds)]
    for pinned, title in ((True, "All processes pinned to one core"), (False, "Not pinned")):
        found = {outcome.case: outcome for outcome in outcomes if outcome.pinned is pinned}
        rows = [
            row(case, bar, found[case.key])[:columns]
            for case in cases
            if case.key in found
            for bar in case.bars
            if bar.pinned in (None, pinned) and not (page and bar.rival == "old")
        ]
        if rows:
            once = list(dict.fromkeys(map(tuple, rows)))
            parts.append(f"**{title}**\n\n{table(HEADINGS[:columns], once)}")
    if page:
        return "\n\n".join(parts)
    judged = [
        met
        for outcome in outcomes
        for case in cases
        if case.key == outcome.case
        for bar in case.bars
        if bar.pinned in (None, outcome.pinned)
        if (met := verdict(case, bar, outcome)) is not None
    ]
    parts.append(f"{sum(judged)} of {len(judged)} bars are met.")
    return "\n\n".join(parts)


def machine_line(machine: dict[str, Any], load: str, rounds: int) -> str:
    """One sentence about where and when."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, {machine['kernel']}; {versions}; "
        f"{load}. Median of {rounds} rounds (lowest-highest)."
    )


def replace_part(page: Path, name: str, text: str) -> None:
    """Put text between the comments ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` of a page.

    Raises:
        ValueError: when the page has no such comments.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{page} has no part between {begin!r} and {end!r}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
