"""What many messages from one agent to another share, worked out once and kept between them.

It is looked up by everything that it was made from, so that a message with one other byte in a shared place
finds nothing. It is kept in a `Kept`, which is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .message import Facts
from .signing import Sealer

CAPACITY = 1024
"""Correspondences that are remembered."""


@dataclass(slots=True)
class Incoming:
    """What a receiver knows.

    Attributes:
        facts: of the messages.
        serializer: name.
        accepted: whether contents in that serializer are opened.
        tag_end: where in frame 4 the tag ends, that begins behind the suite.
        sealer_of: makes a sealer for an epoch of that sender.
        sealer: of the last message that held, None before.
    """

    facts: Facts
    serializer: str
    accepted: bool
    tag_end: int
    sealer_of: Callable[[int], Sealer]
    sealer: Sealer | None


T = TypeVar("T")


class Kept(dict[Hashable, T], Generic[T]):
    """A dictionary that begins anew when it is full; safe from any thread."""

    def keep(self, key: Hashable, value: T) -> None:
        """Remember a value."""
        if len(self) >= CAPACITY:
            self.clear()
        self[key] = value
