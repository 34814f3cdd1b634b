"""Offsets: how far a query has come, as Spark keeps it in its checkpoint.

For each publisher, epoch and topic the last number::

    {"mailbox": "archive", "publishers": {"<agent id>/<epoch>": {"voltage": 1200, "current": 1187}}}

The numbers are those that the publisher gave and signed, not those of the mailbox: a mailbox that was removed
and opened anew begins at 1 again, a topic of one epoch never does. So the rows between two offsets are the
same whoever reads them, how often, and in whatever order they come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...protocol.errors import ConfigError


class Line(NamedTuple):
    """One numbering: that of a topic of one start of a publisher."""

    publisher: str
    epoch: int
    topic: str


class Span(NamedTuple):
    """The notifications of a line above ``after``, up to ``upto``."""

    line: Line
    after: int
    upto: int


@dataclass(frozen=True)
class Offset:
    """A place in every line; a line that is not in it is at 0.

    Attributes:
        mailbox: whose name the query's mailboxes have.
        at: last number of each line.
    """

    mailbox: str
    at: Mapping[Line, int] = field(default_factory=dict[Line, int])

    def of(self, line: Line) -> int:
        """The last number of a line."""
        return self.at.get(line, 0)

    def until(self, end: Offset) -> list[Span]:
        """What lies between here and a later offset, in one order always."""
        spans = (Span(line, self.of(line), upto) for line, upto in sorted(end.at.items()))
        return [span for span in spans if span.upto > span.after]

    def to_json(self) -> dict[str, Any]:
        """For Spark; equal offsets give equal text."""
        publishers: dict[str, dict[str, int]] = {}
        for line, number in sorted(self.at.items()):
            publishers.setdefault(f"{line.publisher}/{line.epoch}", {})[line.topic] = number
        return {"mailbox": self.mailbox, "publishers": publishers}


def read_offset(given: Mapping[str, Any], mailbox: str) -> Offset:
    """An offset out of a checkpoint.

    Args:
        given: as `Offset.to_json` makes it.
        mailbox: name of this query's mailboxes.

    Raises:
        ConfigError: for what is no offset of this source, or one of another mailbox.
    """
    try:
        named, publishers = given["mailbox"], given["publishers"]
        at = {
            Line(*_publisher(text), str(topic)): _number(number)
            for text, topics in publishers.items()
            for topic, number in topics.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise ConfigError(f"the checkpoint holds no offset of the source pzc: {given!r:.200}") from exc
    if named != mailbox:
        raise ConfigError(
            f"the checkpoint belongs to the mailbox {named!r}, and the query names {mailbox!r}: give it the "
            "old name, or a checkpoint of its own"
        )
    return Offset(mailbox, at)


def _publisher(text: str) -> tuple[str, int]:
    publisher, slash, epoch = text.rpartition("/")
    if not slash:
        raise ValueError(text)
    return publisher, int(epoch)


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value
