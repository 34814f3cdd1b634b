"""``@finding("3.1")`` says of which line of the catalogue a test is; ``open=True`` that it still fails there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.contract.findings.catalogue import LINES

Test = TypeVar("Test", bound=Callable[..., object])


def finding(number: str, *, open: bool = False, reason: str = "") -> Callable[[Test], Test]:
    """Mark a test of one line.

    Args:
        number: key of `LINES`.
        open: the test fails today, and fails the run as soon as it passes.
        reason: what happens today, for an open line.
    """
    assert number in LINES, f"{number} is no line of the catalogue"

    def mark(test: Test) -> Test:
        if open:
            why = f"{number} is open: {reason or LINES[number]}"
            test = pytest.mark.xfail(strict=True, reason=why)(test)
        return pytest.mark.finding(number, open=open)(test)

    return mark
