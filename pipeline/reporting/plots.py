"""Figures for the report, as data URIs: nothing to load, no display needed.

Line plots become SVG, images PNG. Colours are Okabe and Ito's, which colour-blind readers can
tell apart; lines of one panel differ in dash as well.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import missing
from .series import Panel, Shot
from .texts import show

try:
    from matplotlib import rc_context
    from matplotlib.dates import ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.ticker import Formatter, LogFormatter
except ImportError as exc:
    raise missing(exc.name or "matplotlib", "report") from exc

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", "--", "-.", ":")
_MISSING, _ALARM = "#5f6670", "#b00020"
WIDTH = 9.0
_FEW = 50
"""Points of a line that are marked one by one at most."""

_TITLE, _KEY, _LABEL = 70, 12, 40
"""Characters for which there is room above a panel, beside it, and beside bars."""

_AROUND = np.timedelta64(30, "s")
"""Time that is shown on both sides of a single moment."""

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "grid.color": "#e3e6ea",
    "axes.edgecolor": "#8a929c",
    "legend.frameon": False,
    "svg.hashsalt": "pzc",
    "text.parse_math": False,  # a name from the network is no formula
}


def svg(figure: Figure) -> str:
    """The figure as ``data:image/svg+xml``; the same data give the same bytes."""
    return _uri(figure, "svg", "image/svg+xml", metadata={"Date": None})


def png(figure: Figure, dpi: int = 110) -> str:
    """The figure as ``data:image/png``."""
    return _uri(figure, "png", "image/png", dpi=dpi)


def over_time(panel: Panel) -> Figure:
    """Numbers of a topic over time, a line for each key; gaps are shaded and alarms are crosses."""
    with rc_context(STYLE):
        figure, axes = _strip(panel.agent, panel.topic, "time (UTC)")
        for i, (key, line) in enumerate(panel.lines.items()):
            colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
            dots = "." if len(line.times) <= _FEW else ""
            label = shortened(show(key), _KEY)
            axes.plot(line.times, line.mean, dash, color=colour, lw=1.2, marker=dots, label=label)
            if (line.greatest > line.least).any():
                axes.fill_between(
                    line.times, line.least, line.greatest, alpha=0.25, color=colour, linewidth=0
                )
        if panel.gaps:  # with an edge, so that the shortest one can be seen
            spans: Any = [(start, end - start) for start, end in panel.gaps]
            axes.broken_barh(
                spans, (0, 1), transform=axes.get_xaxis_transform(), color=_MISSING, alpha=0.35, label="gap"
            )
        if panel.alarms:
            when, values = zip(*panel.alarms, strict=True)
            axes.plot(np.array(when), values, "x", color=_ALARM, label="alarm")
        if panel.alarms or panel.gaps or any(panel.lines):
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        ends = [time for line in panel.lines.values() for time in (line.times[0], line.times[-1])]
        if min(ends) == max(ends):
            axes.set_xlim(min(ends) - _AROUND, max(ends) + _AROUND)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))
    return figure


def curve(shot: Shot) -> Figure:
    """The last array of one dimension, by index."""
    with rc_context(STYLE):
        figure, axes = _strip(shot.agent, shot.topic, "index")
        dots = "." if len(shot.values) <= _FEW else ""
        axes.plot(shot.values, color=COLOURS[0], linewidth=1.0, marker=dots)
    return figure


def _strip(agent: str, topic: str, below: str) -> tuple[Figure, Axes]:
    """A low figure of one topic; its margins are fixed, as finding them takes as long as all the rest."""
    figure = Figure(figsize=(WIDTH, 2.4))
    axes = figure.subplots(gridspec_kw={"left": 0.1, "right": 0.82, "bottom": 0.2, "top": 0.88})
    axes.set_title(shortened(show(f"{agent}  {topic}"), _TITLE))
    axes.set_xlabel(below)
    axes.yaxis.set_major_formatter(_Whole())
    return figure, axes


class _Whole(Formatter):
    """Numbers at an axis with as many digits as tell them apart, and nothing to be added to them."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """See `Formatter`."""
        return f"{x:.{self._digits()}g}"

    def _digits(self) -> int:
        axis = cast("Axis", self.axis)
        ticks = np.unique(np.asarray(axis.get_majorticklocs(), float))
        steps = np.diff(ticks)
        if not len(steps) or not steps.min() > 0:
            return 6
        apart = np.log10(np.abs(ticks).max() / steps.min())
        return int(np.clip(np.ceil(apart) + 1, 3, 15))


class _Few(LogFormatter):
    """Numbers between the decades of a logarithmic axis, where they have room."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """See `LogFormatter`."""
        return f"{x:g}" if super().__call__(x, pos) else ""


def shortened(text: str, most: int) -> str:
    """The text, with an ellipsis in place of what is beyond ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def image(pixels: np.ndarray) -> Figure:
    """One camera frame in grey, with its scale.

    Args:
        pixels: two dimensions.
    """
    with rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(
            figsize=(6.0, 0.4 + 5.0 * pixels.shape[0] / max(1, pixels.shape[1])), layout="constrained"
        )
        axes = figure.subplots()
        figure.colorbar(
            axes.imshow(pixels, cmap="gray", interpolation="nearest"), ax=axes, label="pixel value"
        )
        axes.set_xlabel("column")
        axes.set_ylabel("row")
    return figure


def bars(labels: list[str], groups: dict[str, list[float]], unit: str) -> Figure:
    """Horizontal bars on a logarithmic scale, one group per label; each bar carries its number.

    Args:
        labels: one per row, top to bottom.
        groups: legend text to one number per label; NaN and numbers up to 0 show no bar.
        unit: label of the horizontal axis.
    """
    height = 0.8 / max(1, len(groups))
    rows = np.arange(len(labels))
    with rc_context(STYLE):
        figure = Figure(
            figsize=(WIDTH, 1.0 + 0.42 * len(labels) * max(1, len(groups) * 0.7)), layout="constrained"
        )
        axes = figure.subplots()
        for i, (name, numbers) in enumerate(groups.items()):
            shown = np.array([n if n and n > 0 else np.nan for n in numbers], dtype=float)
            drawn = axes.barh(
                rows + i * height, shown, height * 0.9, color=COLOURS[i % len(COLOURS)], label=name
            )
            texts = ["" if np.isnan(n) else f"{n:.3g}" if n < 1000 else f"{n:.6g}" for n in shown]
            axes.bar_label(drawn, texts, padding=3, fontsize=8)
        if least := min((n for numbers in groups.values() for n in numbers if n and n > 0), default=None):
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter(_Few(minor_thresholds=(2, 0.4)))
        axes.margins(x=0.15)
        if least:
            axes.set_xlim(left=least / 3)  # the shortest bar is one
        names = [shortened(label, _LABEL) for label in labels]
        axes.set_yticks(rows + height * (len(groups) - 1) / 2, names)
        axes.set_ylim(len(labels) - height / 2, -height)  # also where nothing is drawn
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(unit)
        if len(groups) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _uri(figure: Figure, kind: str, mime: str, **options: Any) -> str:
    buffer = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(buffer, format=kind, **options)
    return f"data:{mime};base64,{base64.b64encode(buffer.getvalue()).decode()}"
