"""Pictures of the demo's instruments."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from examples.lab import pictures

pytestmark = pytest.mark.allow_leaks("matplotlib keeps its font files open")

TIMES = pd.date_range("2024-01-01", periods=4, freq="s", tz="UTC")


def drawn(**given: object) -> dict[str, str]:
    nothing = pd.DataFrame()
    parts = dict.fromkeys(("readings", "monthly", "host", "supply"), nothing) | {"frame": None} | given
    return dict(pictures.instruments(**parts))  # pyright: ignore[reportArgumentType]


def test_columns_of_one_unit_share_a_panel() -> None:
    frame = pd.DataFrame({"set [V]": [1.0] * 4, "current [A]": [2.0] * 4, "read [V]": [1.0] * 4}, index=TIMES)
    figure = pictures.panels(frame)
    assert [axes.get_ylabel() for axes in figure.axes] == ["V", "A"]
    assert [len(axes.lines) for axes in figure.axes] == [2, 1]


def test_lines_of_one_panel_differ_in_more_than_colour() -> None:
    frame = pd.DataFrame({"a [V]": [1.0] * 4, "b [V]": [2.0] * 4}, index=TIMES)
    (axes,) = pictures.panels(frame).axes
    assert len({line.get_linestyle() for line in axes.lines}) == 2


def test_a_curve_shows_the_whole_record_and_its_end() -> None:
    dates = pd.date_range("1990-01-01", "2001-12-29", freq="7D")
    figure = pictures.dated_curve(dates, np.arange(len(dates)), dates[:2], [0.0, 1.0], "ppm")
    whole, end = figure.axes
    assert end.get_xlim()[1] - end.get_xlim()[0] == pytest.approx(5 * 365)
    assert whole.get_xlim()[0] < end.get_xlim()[0]


def test_each_instrument_is_told_in_words() -> None:
    weeks = pd.date_range("1990-01-06", periods=400, freq="7D")
    ppm = 350 + np.arange(400) / 50
    ppm[7] = np.nan
    months = pd.Series(ppm, weeks).resample("MS").mean().reset_index().set_axis(["month", "mean"], axis=1)
    found = drawn(
        readings=pd.DataFrame({"date": weeks, "co2": ppm}),
        monthly=months,
        host=pd.DataFrame({"cpu [%]": [0.0, 30.0, 60.0, 90.0], "load": 1.0}, index=TIMES),
        frame=np.arange(64, dtype=np.uint16).reshape(8, 8),
    )
    assert "400 readings, 1 of them missing, from 350.0 to 358.0 ppm" in found["CO2 at Mauna Loa"]
    assert "cpu [%] from 0 to 90" in found["Host load"]
    assert "Not recorded." in found["Supply ramp"]
    assert "8 rows and 8 columns, uint16, from 0 to 63" in found["Camera frame"]


def test_constant_and_missing_readings_can_be_plotted() -> None:
    seconds = pd.date_range("2024-01-01", periods=3, freq="s")
    nothing = pd.DataFrame({"rate [B/s]": [np.nan] * 3, "flat [V]": [1.0] * 3}, index=seconds)
    dates = pd.DataFrame({"date": ["2001-01-06"], "co2": [np.nan]})
    months = pd.DataFrame({"month": [datetime.date(2001, 1, 1)], "mean": [None]})
    found = drawn(host=nothing, readings=dates, monthly=months)
    assert sum("<img" in body for body in found.values()) == 2
