"""Tables of any width."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from pzc.console.tables import table_lines

HEADINGS = ("NAME", "STATE", "PID", "LOCK", "DOES")
ROWS = [
    ("psu", "running", "4711", "", "idle"),
    ("dmm", "waiting", "7", "", "again in 1 s: OSError: no route to 10.0.0.8, which the network says"),
]


def test_a_row_is_a_line_where_nobody_says_how_wide_it_may_be() -> None:
    assert table_lines(HEADINGS[:3], [row[:3] for row in ROWS], (2,)) == [
        "NAME  STATE     PID",
        "psu   running  4711",
        "dmm   waiting     7",
    ]


def test_an_empty_column_goes_and_the_last_one_folds_where_it_is_narrow() -> None:
    lines = table_lines(HEADINGS, ROWS, width=60)
    assert lines[:3] == [
        "NAME  STATE    PID   DOES",
        "psu   running  4711  idle",
        "dmm   waiting  7     again in 1 s: OSError: no route to",
    ]


def test_where_it_is_narrower_still_each_row_is_a_block_of_what_it_has() -> None:
    lines = table_lines(HEADINGS, ROWS, width=40)
    assert lines[:6] == ["NAME   psu", "STATE  running", "PID    4711", "DOES   idle", "", "NAME   dmm"]


def test_before_that_what_can_be_spared_goes_as_far_as_it_helps() -> None:
    rows = [(*row[:4], "no route to 10.0.0.8, which the network says") for row in ROWS]
    spare = ("PID", "STATE")
    assert table_lines(HEADINGS, rows, spare=spare, width=44)[0] == "NAME  STATE    DOES"
    assert table_lines(HEADINGS, rows, spare=spare, width=34)[0] == "NAME  DOES"
    assert table_lines(HEADINGS, rows, spare=spare, width=34)[-1] == "no room for STATE, PID"
    assert table_lines(HEADINGS, rows, spare=spare, width=20)[:3] == [
        "NAME   psu",
        "STATE  running",
        "PID    4711",
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
@settings(max_examples=25)
@example([("", "a" * 18, "b" * 21, ""), ("c" * 8, "", "", "d" * 28)])
@given(rows=st.lists(st.tuples(*[st.text("ab c\x1b\näß電圧", max_size=30)] * 4), max_size=4))
def test_no_line_is_wider_than_asked_and_none_commands_a_terminal(
    width: int, rows: list[tuple[str, ...]]
) -> None:
    lines = table_lines(("a", "b", "c", "d"), rows, width=width)
    assert all(cell_len(line) <= width and line.isprintable() for line in lines)


def test_words_of_state_are_coloured_and_others_are_not() -> None:
    lines = table_lines(HEADINGS[:2], [row[:2] for row in ROWS], width=80, coloured=True)
    assert "\x1b[32mrunning" in lines[1]
    assert lines[1].startswith("psu")


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    assert table_lines(("a",), [("[red]x[/red] :smile:",)])[1] == "[red]x[/red] :smile:"


def test_headings_stand_above_no_rows() -> None:
    assert table_lines(("a", "b"), [], width=80) == ["a  b"]
