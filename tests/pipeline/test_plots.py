from __future__ import annotations

import base64
import io

import matplotlib.image
import numpy as np
import pytest

from pzc.pipeline.reporting import plots
from pzc.pipeline.reporting.series import Line, Panel

pytestmark = pytest.mark.allow_leaks("matplotlib keeps its font files open")


def test_bars_carry_their_numbers() -> None:
    (axes,) = plots.bars(["a", "b"], {"rate": [20.0, float("nan")]}, "Hz").axes
    assert [text.get_text() for text in axes.texts] == ["20", ""]


def test_bars_stand_in_the_order_of_their_labels() -> None:
    (axes,) = plots.bars(["first", "second"], {"rate": [1.0, 2.0]}, "Hz").axes
    assert axes.yaxis_inverted()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first", "second"]


def test_a_row_without_a_bar_and_the_shortest_bar_are_in_sight() -> None:
    (axes,) = plots.bars(["none", "short", "long"], {"rate": [float("nan"), 1.2, 3.0]}, "Hz").axes
    low, high = sorted(axes.get_ylim())
    assert low < 0
    assert high > 2
    assert axes.get_xlim()[0] < 0.5


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
