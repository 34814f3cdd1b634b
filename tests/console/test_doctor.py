"""How ``pzc doctor`` runs its checks and compares versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pzc.console.checks import versions
from pzc.console.checks.finding import Subject, findings_of
from pzc.console.checks.settings import read_settings


def test_a_check_that_breaks_is_a_finding_and_no_crash() -> None:
    def check_this(subject: Subject) -> Iterator[Any]:
        raise ZeroDivisionError("oh")
        yield

    settings, _ = read_settings({})
    (finding,) = findings_of(check_this, Subject({}, settings))
    assert (finding.check, finding.status) == ("this", "failed")
    assert "ZeroDivisionError: oh" in finding.found


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("4.3.0", ">=4.3,<4.4", True),
        ("4.4.0", ">=4.3,<4.4", False),
        ("4.2.9", ">=4.3,<4.4", False),
        ("26.0", ">=26", True),
        ("26.0.0b1", ">=26", True),
        ("3.0+local", ">=3.1", False),
        ("1", "", True),
    ],
)
def test_versions_are_compared_by_number(version: str, wanted: str, fits: bool) -> None:
    assert versions.satisfies(version, wanted) is fits
