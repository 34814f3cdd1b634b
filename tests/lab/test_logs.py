"""Logs that are read while they are written, and divided into files."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from pzc.lab.logs import LOG_FILES, LogReader


class Log:
    """A log that goes to an old file whenever it holds a few lines.

    Args:
        path: of the log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handler = RotatingFileHandler(path, maxBytes=40, backupCount=LOG_FILES, encoding="utf-8")

    def write(self, first: int, last: int) -> None:
        for number in range(first, last):
            self._handler.handle(logging.makeLogRecord({"msg": f"line {number}"}))

    def close(self) -> None:
        self._handler.close()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "psu.log")


def lines(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last)]


def test_what_went_to_old_files_meanwhile_is_read_once(log: Log) -> None:
    log.write(0, 3)
    reader = LogReader(log.path)
    assert reader.last(2) == lines(1, 3)
    for first, last in ((3, 4), (4, 12), (12, 20)):
        log.write(first, last)
        assert list(reader.more()) == lines(first, last)
    log.close()


def test_the_last_lines_are_found_in_old_files(log: Log) -> None:
    log.write(0, 13)
    assert LogReader(log.path).last(10) == lines(3, 13)
    log.close()


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "lab.log"
    path.write_bytes(b"one\r\ntw")
    reader = LogReader(path)
    assert reader.last(5) == ["one\r"]
    path.write_bytes(b"one\r\ntwo\xff\n")
    assert list(reader.more()) == ["two\\xff"]
    assert list(reader.more()) == []


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert LogReader(tmp_path / "psu.log").last(5) == []
