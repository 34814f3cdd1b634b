"""Declared: what the messages of a topic are, as far as their publisher said it, and whether one is that.

A class is checked, and the name of one of Python's own, such as ``"float"``. Any other text is a name that
two sides agreed upon (`typed`); contents of whatever class may go by it.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable

from ...discovery.names import type_name
from ...protocol.errors import TypeMismatch
from ...protocol.peer import MOST_TYPES
from .filters import ANY


def withdrawn(topic: str) -> str:
    """What those who subscribe to a topic are told when its publisher offers it no more."""
    return f"its publisher has withdrawn topic {topic[:80]!r}"


class Declared:
    """What one publisher said; safe from any thread.

    Attributes:
        classes: those that are checked, by topic.
        names: what was said of each topic, as text.
    """

    __slots__ = ("_passed", "classes", "names")

    def __init__(self) -> None:
        self.classes: dict[str, type] = {}
        self.names: dict[str, str] = {}
        self._passed: dict[str, set[type]] = {}

    def say(self, topic: str, given: str | type) -> None:
        """The messages of a topic are this from now on."""
        self.names[topic] = type_name(given)
        found = getattr(builtins, given, None) if isinstance(given, str) else given
        self._passed.pop(topic, None)
        if isinstance(found, type):
            self.classes[topic] = found
        else:
            self.classes.pop(topic, None)

    def forget(self, topic: str) -> None:
        """Nothing is said of a topic any more."""
        for said in (self.names, self.classes, self._passed):
            said.pop(topic, None)

    def of(self, topics: Iterable[str]) -> dict[str, str]:
        """What was said of these topics, as far as something was; of ``*`` of all."""
        names = self.names
        topics = list(names)[:MOST_TYPES] if ANY in (asked := list(topics)) else asked
        return {topic: names[topic] for topic in topics if topic in names}

    def check(self, topic: str, content: object) -> None:
        """Judge what is about to be published.

        Raises:
            TypeMismatch: naming both types.
        """
        declared = self.classes.get(topic)
        if declared is None or type(content) in (passed := self._passed.setdefault(topic, set())):
            return
        if not isinstance(content, declared):
            raise TypeMismatch(
                f"topic {topic!r} was advertised with messages of type {type_name(declared)}, and this is "
                f"one of type {type_name(type(content))}; nothing was published"
            )
        passed.add(type(content))
