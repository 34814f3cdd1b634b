from __future__ import annotations

import base64
import io

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from pzc.pipeline.reporting import plots
from pzc.pipeline.reporting.series import Line, Panel

pytestmark = pytest.mark.allow_leaks("matplotlib keeps its font files open")

TIMES = pd.date_range("2024-01-01", periods=4, freq="s", tz="UTC")


def test_columns_of_one_unit_share_a_panel() -> None:
    frame = pd.DataFrame({"set [V]": [1.0] * 4, "current [A]": [2.0] * 4, "read [V]": [1.0] * 4}, index=TIMES)
    figure = plots.panels(frame)
    assert [axes.get_ylabel() for axes in figure.axes] == ["V", "A"]
    assert [len(axes.lines) for axes in figure.axes] == [2, 1]


def test_lines_of_one_panel_differ_in_more_than_colour() -> None:
    frame = pd.DataFrame({"a [V]": [1.0] * 4, "b [V]": [2.0] * 4}, index=TIMES)
    (axes,) = plots.panels(frame).axes
    assert len({line.get_linestyle() for line in axes.lines}) == 2


def test_a_curve_shows_the_whole_record_and_its_end() -> None:
    dates = pd.date_range("1990-01-01", "2001-12-29", freq="7D")
    figure = plots.dated_curve(dates, np.arange(len(dates)), dates[:2], [0.0, 1.0], "ppm")
    whole, end = figure.axes
    assert end.get_xlim()[1] - end.get_xlim()[0] == pytest.approx(5 * 365)
    assert whole.get_xlim()[0] < end.get_xlim()[0]


def test_bars_carry_their_numbers() -> None:
    (axes,) = plots.bars(["a", "b"], {"rate": [20.0, float("nan")]}, "Hz").axes
    assert [text.get_text() for text in axes.texts] == ["20", ""]


def test_bars_stand_in_the_order_of_their_labels() -> None:
    (axes,) = plots.bars(["first", "second"], {"rate": [1.0, 2.0]}, "Hz").axes
    assert axes.yaxis_inverted()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first", "second"]


def test_a_png_can_be_read_again() -> None:
    uri = plots.png(plots.image(np.zeros((4, 8), np.uint16)), dpi=50)
    pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(uri.partition(",")[2])))
    assert pixels.shape[2] == 4


def test_a_figure_drawn_twice_gives_the_same_bytes() -> None:
    def draw() -> str:
        return plots.svg(plots.bars(["a"], {"rate": [1.0]}, "Hz"))

    assert draw() == draw()


def test_text_that_looks_like_markup_for_formulas_is_drawn_as_it_is() -> None:
    assert plots.svg(plots.bars(["cost $x_{$"], {"a_$b$": [1.0]}, "€"))


def panel(values: list[float], agent: str = "psu", key: str = "") -> Panel:
    times = np.array([1_700_000_000 + n for n in range(len(values))], "datetime64[s]").astype(
        "datetime64[us]"
    )
    numbers = np.array(values)
    return Panel(agent, "v", len(values), {key: Line(times, numbers, numbers, numbers)})


def labels(values: list[float]) -> list[str]:
    figure = plots.over_time(panel(values))
    figure.canvas.draw()
    (axes,) = figure.axes
    return [label.get_text() for label in axes.get_yticklabels()]


@pytest.mark.parametrize("around", [0.0, 4.2, 1e6, -3e9])
@pytest.mark.parametrize("change", [1e-6, 1.0, 1e9])
def test_labels_of_an_axis_say_the_numbers_that_they_stand_at(around: float, change: float) -> None:
    found = labels([around, around + change])
    assert len(set(found)) == len(found)
    assert min(map(float, found)) <= around <= max(map(float, found))


def test_long_names_do_not_leave_the_figure() -> None:
    figure = plots.over_time(panel([1.0, 2.0], "an agent " * 20, "a key " * 20))
    figure.canvas.draw()
    assert figure.get_tightbbox().x1 <= figure.get_size_inches()[0]
