"""What is written to a terminal, and to anything else."""

from __future__ import annotations

import io

import pytest

from pzc.console.output import folded

LINE = "pzc: PeerLost: nothing listens at tcp://127.0.0.1:5999: connection refused; start the server"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_line_for_a_terminal_is_broken_between_words(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = folded(LINE, 5, Terminal()).split("\n")
    assert max(map(len, lines)) <= width
    assert " ".join(line.strip() for line in lines) == LINE
    assert all(line.startswith("     ") for line in lines[1:])


def test_what_is_longer_than_a_line_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert "tcp://127.0.0.1:5999:" in folded(LINE, 5, Terminal())


def test_a_program_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert folded(LINE, 5, io.StringIO()) == LINE
