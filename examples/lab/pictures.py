"""Pictures of the demo's instruments, as sections of the report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.dates import DateFormatter, YearLocator
from matplotlib.figure import Figure

from pzc.pipeline.reporting import plots
from pzc.pipeline.reporting.report import drawn, note
from pzc.pipeline.reporting.texts import show

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTHING = note("Not recorded.")


def instruments(
    readings: pd.DataFrame,
    monthly: pd.DataFrame,
    host: pd.DataFrame,
    supply: pd.DataFrame,
    frame: np.ndarray | None,
) -> list[tuple[str, str]]:
    """Headings and contents.

    Args:
        readings: columns ``date`` and ``co2`` (ppm, NaN where missing).
        monthly: columns ``month`` and ``mean`` (ppm).
        host: indexed by time, columns called ``name [unit]``.
        supply: as ``host``.
        frame: of the camera, two dimensions.
    """
    return [
        ("CO2 at Mauna Loa", _co2(readings, monthly)),
        ("Host load", _panels(host, "Host readings")),
        ("Supply ramp", _panels(supply, "Power supply readings")),
        ("Camera frame", _camera(frame)),
    ]


def linked(pictures: Mapping[str, str]) -> str:
    """Pictures of files beside the page, and what each shows."""
    return "".join(
        f'<a href="{escape(file)}">{drawn(escape(file), said)}</a>' for file, said in pictures.items()
    )


def _co2(readings: pd.DataFrame, monthly: pd.DataFrame) -> str:
    if readings.empty:
        return NOTHING
    figure = dated_curve(readings["date"], readings["co2"], monthly["month"], monthly["mean"], "CO2 [ppm]")
    values, dates = readings["co2"].astype(float), pd.to_datetime(readings["date"])
    alt = (
        f"CO2 from {dates.min():%Y-%m-%d} to {dates.max():%Y-%m-%d}: {len(readings)} readings, "
        f"{int(values.isna().sum())} of them missing, from {values.min():.1f} to {values.max():.1f} ppm, "
        f"with {int(monthly['mean'].notna().sum())} monthly means."
    )
    return drawn(plots.svg(figure), alt)


def _panels(frame: pd.DataFrame, what: str) -> str:
    if frame.empty:
        return NOTHING
    spans = ", ".join(
        f"{name} from {show(float(frame[name].min()))} to {show(float(frame[name].max()))}" for name in frame
    )
    return drawn(plots.svg(panels(frame)), f"{what} over time: {spans}.")


def _camera(pixels: np.ndarray | None) -> str:
    if pixels is None:
        return NOTHING
    rows, columns = pixels.shape
    span = f"from {pixels.min()} to {pixels.max()}" if pixels.size else "empty"
    alt = f"One camera frame of {rows} rows and {columns} columns, {pixels.dtype}, {span}."
    return drawn(plots.png(plots.image(pixels)), alt)


def dated_curve(dates: Any, values: Any, months: Any, means: Any, unit: str) -> Figure:
    """Readings as dots and their monthly means as a line, with the last five years enlarged.

    Args:
        dates: of the readings.
        values: of the readings; NaN leaves a hole.
        months: first day of each month.
        means: one per month.
        unit: label of the vertical axis.
    """
    when, first = _times(dates), _times(months)
    with rc_context(plots.STYLE):
        figure = Figure(figsize=(plots.WIDTH, 3.6), layout="constrained")
        whole, detail = figure.subplots(1, 2, width_ratios=(2, 1))
        for axes in (whole, detail):
            axes.plot(when, values, ".", color=plots.COLOURS[5], markersize=3, label="as received")
            axes.plot(first, means, color=plots.COLOURS[1], linewidth=1.2, label="monthly mean")
        whole.set_ylabel(unit)
        whole.set_title("whole record")
        whole.legend()
        _enlarge_end(detail, when, np.asarray(values, dtype=float))
    return figure


def panels(frame: pd.DataFrame) -> Figure:
    """Lines over time, one panel per unit.

    Args:
        frame: indexed by time; a column is called ``name [unit]``, and columns of one unit share
            a panel.
    """
    groups: dict[str, list[str]] = {}
    for column in frame.columns:
        groups.setdefault(_unit(column), []).append(column)
    when = _times(frame.index)
    with rc_context(plots.STYLE):
        figure = Figure(figsize=(plots.WIDTH, 0.6 + 1.7 * max(1, len(groups))), layout="constrained")
        rows = figure.subplots(max(1, len(groups)), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (unit, columns) in zip(rows, groups.items(), strict=False):
            for i, column in enumerate(columns):
                style = {
                    "color": plots.COLOURS[i % len(plots.COLOURS)],
                    "linestyle": plots.DASHES[i % len(plots.DASHES)],
                }
                axes.plot(
                    when,
                    frame[column],
                    label=column.removesuffix(f"[{unit}]").strip(),
                    linewidth=1.2,
                    **style,
                )
            axes.set_ylabel(unit)
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        rows[-1].set_xlabel("time (UTC)")
    return figure


def _enlarge_end(axes: Axes, when: np.ndarray, values: np.ndarray) -> None:
    axes.set_title("last five years")
    if not len(when):
        return
    start = when.max() - np.timedelta64(5 * 365, "D")
    near = values[(when >= start) & np.isfinite(values)]
    axes.set_xlim(start, when.max())
    if len(near):
        margin = 0.05 * (near.max() - near.min()) or 1.0
        axes.set_ylim(near.min() - margin, near.max() + margin)
    axes.xaxis.set_major_locator(YearLocator())
    axes.xaxis.set_major_formatter(DateFormatter("%Y"))


def _unit(column: str) -> str:
    found = re.search(r"\[([^\]]*)\]$", column)
    return found[1] if found else ""


def _times(values: Any) -> np.ndarray:
    return pd.DatetimeIndex(pd.to_datetime(values, utc=True)).tz_localize(None).to_numpy()
