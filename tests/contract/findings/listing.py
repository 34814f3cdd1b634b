"""``make findings``: which lines of the catalogue are open, which are closed, by the tests that stand for them."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.contract.findings.catalogue import LINES, UNSHOWN


class Listing:
    """Prints the state of every line after a collection.

    ::

        tests of a line        state
        none, in UNSHOWN       not shown
        none                   no test
        one with open=True     open
        others                 closed
    """

    def __init__(self) -> None:
        self._tests: dict[str, list[pytest.Item]] = defaultdict(list)
        self._open: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("finding"):
                self._tests[mark.args[0]].append(item)
                if mark.kwargs.get("open"):
                    self._open.add(mark.args[0])

    def state(self, number: str) -> str:
        """One word for a line."""
        if number in self._open:
            return "open"
        if self._tests[number]:
            return "closed"
        return "not shown" if number in UNSHOWN else "NO TEST"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        states = {number: self.state(number) for number in LINES}
        write = terminalreporter.write_line
        for number, sentence in LINES.items():
            tests = len(self._tests[number])
            shown = f"{tests} test{'' if tests == 1 else 's'}" if tests else UNSHOWN.get(number, "")
            write(f"{states[number]:<10}{number:<6}{sentence}  [{shown}]", red=states[number] == "open")
        counts = {
            word: list(states.values()).count(word) for word in ("open", "closed", "not shown", "NO TEST")
        }
        write(", ".join(f"{count} {word}" for word, count in counts.items() if count))
