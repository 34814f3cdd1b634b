"""Cells as text, for a terminal and for the report."""

from __future__ import annotations

import datetime
import math

import numpy as np

from .. import missing

try:
    import pandas as pd
except ImportError as exc:
    raise missing("pandas") from exc


def show(value: object) -> str:
    """One cell as text: floats with six significant digits, times to the second, None as ``-``."""
    if value is None or value is pd.NaT or value is pd.NA:
        return "-"
    if isinstance(value, float | np.floating):
        return "-" if math.isnan(value) else f"{value:.6g}"
    if isinstance(value, datetime.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    # Control characters from a network must not reach a terminal or a plot.
    return "".join(char if char.isprintable() else " " if char.isspace() else "�" for char in str(value))


def is_number(value: object) -> bool:
    """True for what stands to the right in a column: numbers, and None beside them."""
    return value is None or (isinstance(value, int | float | np.number) and not isinstance(value, bool))
