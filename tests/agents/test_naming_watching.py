"""How a gathering follows the names that fit its pattern."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pzc.agents.naming.watching import Watching
from pzc.discovery.events import Appeared, Event, Vanished
from pzc.discovery.records import Entry


class Names:
    """A naming whose helpers run when a test says so."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], object]] = []
        self.looks = 0

    def help(self, task: Callable[[], object], **_: object) -> None:
        self.tasks.append(task)

    def watch(self, _: str, listener: Callable[[Event], object]) -> None:
        self.tell = listener

    def match(self, _: str) -> list[Entry]:
        self.looks += 1
        return []


class Gathering:
    """A subscription to one publisher, which is not there any more."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.topic = "t"
        self.sources: list[str] = []

    def remove(self, source: str) -> None:
        self.sources.remove(source)


def watched(*sources: str, patience: float = 0.0) -> tuple[Any, Gathering]:
    """Names that are watched for a gathering, and that; it has these sources by now."""
    names: Any = Names()
    gathering: Any = Gathering(patience)
    Watching(names, "cam*").begin(gathering, 0.0)
    names.looks = 0
    gathering.sources += sources
    return names, gathering


def test_names_that_come_together_are_looked_for_once() -> None:
    names, _ = watched()
    for number in range(100):
        names.tell(Appeared(Entry("agent", f"/cam{number}")))
    while names.tasks:
        names.tasks.pop()()
    assert names.looks == 1


def test_a_name_that_comes_after_a_look_is_looked_for_again() -> None:
    names, _ = watched()
    for number in range(2):
        names.tell(Appeared(Entry("agent", f"/cam{number}")))
        names.tasks.pop()()
    assert names.looks == 2


@pytest.mark.parametrize(("patience", "left"), [(0.0, []), (3600.0, ["@@/cam1"]), (math.inf, ["@@/cam1"])])
def test_a_source_that_is_away_stays_for_as_long_as_its_publisher_may_keep_something(
    patience: float, left: list[str]
) -> None:
    names, gathering = watched("@@/cam1", patience=patience)
    names.tell(Vanished(Entry("agent", "/cam1")))
    names.tasks.pop()()
    assert gathering.sources == left


def test_a_source_that_was_away_for_too_long_is_left() -> None:
    names, gathering = watched("@@/cam1", patience=1e-9)
    names.tell(Vanished(Entry("agent", "/cam1")))
    while names.tasks:
        names.tasks.pop(0)()
    assert gathering.sources == []
