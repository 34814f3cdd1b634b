"""How a gathering follows the names that fit its pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pzc.agents.naming.watching import Watching
from pzc.discovery.events import Appeared
from pzc.discovery.records import Entry


class Names:
    """A naming whose helpers run when a test says so."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], object]] = []
        self.looks = 0

    def help(self, task: Callable[[], object], **_: object) -> None:
        self.tasks.append(task)

    def match(self, _: str) -> list[Entry]:
        self.looks += 1
        return []


class Gathering:
    sources: tuple[str, ...] = ()


def test_names_that_come_together_are_looked_for_once() -> None:
    names: Any = Names()
    watching: Any = Watching(names, "cam*")
    watching._gathering = Gathering()
    for number in range(100):
        watching._on_event(Appeared(Entry("agent", f"/cam{number}")))
    while names.tasks:
        names.tasks.pop()()
    assert names.looks == 1


def test_a_name_that_comes_after_a_look_is_looked_for_again() -> None:
    names: Any = Names()
    watching: Any = Watching(names, "cam*")
    watching._gathering = Gathering()
    for number in range(2):
        watching._on_event(Appeared(Entry("agent", f"/cam{number}")))
        names.tasks.pop()()
    assert names.looks == 2
