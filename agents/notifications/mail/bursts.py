"""Bursts: messages that came out of a mailbox together, for a sink that takes them as columns.

What a `Sink` takes has cost nothing for each message but its frames: no notification, no inbox, no callback.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ....delivery.cursor import Gap
from ....protocol.bundle import Body, Record


@dataclass(slots=True, eq=False)
class Burst:
    """Messages of one publisher in the order of its mailbox, with their frames.

    Attributes:
        publisher: agent id.
        name: as the publisher calls itself, possibly empty.
        epoch: of the publisher.
        key_id: of the key that signed them; empty when unsigned.
        received_at: Unix seconds by this machine's clock.
        headers: frame 0 of each; the other frames are in the letters.
        letters: as many.
        done: to be called once, by any thread, when they are done with.
    """

    publisher: str
    name: str
    epoch: int
    key_id: str
    received_at: float
    headers: list[bytes]
    letters: list[Record]
    done: Callable[[], object]

    @property
    def bodies(self) -> list[Body]:
        """Frame 2 of each; large ones are views of what was received."""
        return [letter.body for letter in self.letters]


@dataclass(frozen=True, slots=True)
class Missed:
    """Messages that will not come.

    Attributes:
        publisher: agent id.
        topic: of the messages; ``*`` when that is not known.
        gap: which, or the publisher's restart.
        reason: ``evicted``, ``forgotten``, ``restarted`` or ``refused``.
    """

    publisher: str
    topic: str
    gap: Gap
    reason: str


class Sink(Protocol):
    """Takes everything that comes for subscriptions; called by the I/O thread, which it must not keep.

    The subscriptions have ``raw`` and ``manual_ack``. Should others without the sink share their mailbox, or
    one have a key, their callback is called instead.
    """

    @property
    def paused(self) -> bool:
        """Nothing more is to be asked for; to be told anew with the next `Burst.done`, or within a second."""
        ...

    def take(self, burst: Burst) -> None:
        """Messages came."""
        ...

    def miss(self, missed: Missed) -> None:
        """Messages will not come."""
        ...
