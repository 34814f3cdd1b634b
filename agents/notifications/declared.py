"""Declared: what the messages of a topic are, as far as their publisher said it, and whether one is that.

A class is checked, and the name of one of Python's own, such as ``"float"``. Any other text is a name that
two sides agreed upon; contents of whatever class may go by it. Who says no type, on either side, takes any.
"""

from __future__ import annotations

import builtins
import logging
from collections.abc import Iterable

from ...discovery.names import type_name
from ...protocol.errors import TypeMismatch
from ...protocol.peer import MOST_TYPES
from .filters import ANY

logger = logging.getLogger("pzc.names")

MAX_COMPLAINTS = 1000
"""Topics and wanted types that the log has told of."""

MOST_SHOWN = 200
"""Characters of a name that the log shows."""


def withdrawn(topic: str) -> str:
    """What those who subscribe to a topic are told when its publisher offers it no more."""
    return f"its publisher has withdrawn topic {topic[:80]!r}"


def mismatch(topic: str, wanted: str, said: str) -> TypeMismatch:
    """What whoever asks for another type is told."""
    return TypeMismatch(
        f"topic {topic!r} has messages of type {said}, and {wanted} is asked for: subscribe with that type, "
        "or without any"
    )


class Declared:
    """What one publisher said; safe from any thread.

    Attributes:
        classes: those that are checked, by topic.
        names: what was said of each topic, as text.
    """

    __slots__ = ("_complaints", "classes", "names")

    def __init__(self) -> None:
        self.classes: dict[str, type] = {}
        self.names: dict[str, str] = {}
        self._complaints: set[tuple[str, ...]] = set()

    def say(self, topic: str, given: str | type) -> None:
        """The messages of a topic are this from now on."""
        self.names[topic] = type_name(given)
        found = getattr(builtins, given, None) if isinstance(given, str) else given
        if isinstance(found, type):
            self.classes[topic] = found
        else:
            self.classes.pop(topic, None)

    def forget(self, topic: str) -> None:
        """Nothing is said of a topic any more."""
        self.names.pop(topic, None)
        self.classes.pop(topic, None)

    def of(self, topics: Iterable[str]) -> dict[str, str]:
        """What was said of these topics, as far as something was; of ``*`` of all."""
        names = self.names
        topics = list(names)[:MOST_TYPES] if ANY in (asked := list(topics)) else asked
        return {topic: names[topic] for topic in topics if topic in names}

    def judge(self, topic: str, wanted: str) -> None:
        """Judge what a reader asks for; one that is refused is told of in the log.

        Args:
            topic: of its interest.
            wanted: the type that it asks for; empty for any.

        Raises:
            TypeMismatch: when another one was said.
        """
        said = self.names.get(topic, "")
        if not (said and wanted) or said == wanted:
            return
        complaint = tuple(text[:MOST_SHOWN] for text in (topic, wanted, said))
        if complaint not in self._complaints and len(self._complaints) < MAX_COMPLAINTS:
            self._complaints.add(complaint)
            logger.warning(
                "a reader of topic %r asks for messages of type %r, and they are of type %r: it gets none; "
                "correct the type in its subscribe, or in advertise here", *complaint
            )  # fmt: skip
        raise mismatch(topic, wanted, said)

    def check(self, topic: str, content: object) -> None:
        """Judge what is about to be published.

        Raises:
            TypeMismatch: naming both types.
        """
        declared = self.classes.get(topic)
        if declared is not None and not isinstance(content, declared):
            raise TypeMismatch(
                f"topic {topic!r} was advertised with messages of type {type_name(declared)}, and this is "
                f"one of type {type_name(type(content))}; nothing was published"
            )
