"""Types that a publisher declares for its topics, compared with the type that a subscription asks for.

A type is a class or a name that two sides agreed upon. A side that names no type takes any.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...discovery.names import type_name
from ...protocol.errors import TypeMismatch
from ...transport.peer import MOST_TYPES
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
        names: the declared type of each topic, as text.
    """

    __slots__ = ("_complaints", "names")

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self._complaints: set[tuple[str, ...]] = set()

    def say(self, topic: str, given: str | type) -> None:
        """The messages of a topic are this from now on."""
        self.names[topic] = type_name(given)

    def forget(self, topic: str) -> None:
        """Nothing is said of a topic any more."""
        self.names.pop(topic, None)

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
