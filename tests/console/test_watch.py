"""How ``pzc watch`` shows notifications, and what is missing between them."""

from __future__ import annotations

import json

import pytest

from pzc import Notification
from pzc.console.watch import Printer


def _notification(sequence: int, epoch: int = 7) -> Notification:
    return Notification("ab" * 16, "source", "readings", "", sequence, epoch, 0.0, 0.0, None)


def _show(printer: Printer, *notifications: Notification) -> None:
    for notification in notifications:
        printer.show(notification)


def test_a_gap_stands_between_its_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Printer(False, False), _notification(1), _notification(4))
    assert capsys.readouterr().out.splitlines()[1] == "gap: 2 of readings lost, 2 to 3"


def test_a_gap_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer(True, False)
    _show(printer, _notification(1), _notification(4))
    gap = json.loads(capsys.readouterr().out.splitlines()[1])
    assert gap == {
        "topic": "readings", "epoch": 7, "gap": {"first": 2, "last": 3, "count": 2, "restarted": False},
    }  # fmt: skip
    assert printer.lost == 2


def test_a_restart_of_the_publisher_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Printer(False, False), _notification(5), _notification(1, epoch=8))
    assert capsys.readouterr().out.splitlines()[1] == "gap: the publisher of readings was restarted"


def test_a_dialect_without_sequence_has_no_gaps(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Printer(False, False), _notification(0, epoch=0), _notification(0, epoch=0))
    assert "gap" not in capsys.readouterr().out
