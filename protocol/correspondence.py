"""What many messages from one agent to another share, worked out once and kept between them.

Both kinds are looked up by everything that they were made from, so that a message with one other byte
in a shared place finds nothing. They are kept in a `Kept`, which is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .message import Facts
from .signing import Sealer

CAPACITY = 1024
"""Correspondences of each direction that a codec remembers."""


@dataclass(slots=True)
class Outgoing:
    """For sending.

    Attributes:
        opening: of the header.
        header: the whole, when it is equal for all messages, else empty.
        serializer: frame 1.
        sealer_of: makes a sealer for an epoch of this sender.
        sealer: the last one made.
    """

    opening: bytes
    header: bytes
    serializer: bytes
    sealer_of: Callable[[int], Sealer]
    sealer: Sealer


@dataclass(slots=True)
class Incoming:
    """For receiving.

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
