"""What many messages from one agent to another share, worked out once and kept between them.

Both kinds are looked up by everything that they were made from, so that a message with one other byte
in a shared place finds nothing. They are kept in a `Kept`, which is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .frames import Kind
from .keyring import Key
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
        kind: of the messages.
        sender: agent id.
        topic: empty for requests and replies.
        serializer: name.
        accepted: whether contents in that serializer are opened.
        signer: known key; None for unsigned messages.
        trusted: as that of `Envelope`.
        tag_end: where in frame 4 the tag ends, that begins behind the suite.
        sealer_of: makes a sealer for an epoch of that sender.
        sealer: of the last message that held, None before.
    """

    kind: Kind
    sender: str
    topic: str
    serializer: str
    accepted: bool
    signer: Key | None
    trusted: bool
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
