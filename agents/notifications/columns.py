"""Columns: messages that came out of a mailbox together, for a sink that takes them as a burst.

What a `Sink` takes has cost nothing for each message but its frames: no notification, no inbox, no callback.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ...delivery.cursor import Gap
from ...protocol.link_messages import Body, Row


@dataclass(slots=True, eq=False)
class Burst:
    """Messages of one publisher in the order of its mailbox, with their frames.

    Attributes:
        publisher: agent id.
        name: as the publisher calls itself, possibly empty.
        epoch: of the publisher.
        key_id: of the key that signed them; empty when unsigned.
        received_at: Unix seconds by this machine's clock.
        topics: of each.
        headers: frame 0 of each; the other frames are in the rows.
        rows: as many.
        done: to be called once, by any thread, when they are done with.
    """

    publisher: str
    name: str
    epoch: int
    key_id: str
    received_at: float
    topics: list[str]
    headers: list[bytes]
    rows: list[Row]
    done: Callable[[], object]

    @property
    def bodies(self) -> list[Body]:
        """Frame 2 of each; large ones are views of what was received."""
        return [row.body for row in self.rows]


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
    """Takes everything that comes for subscriptions; called by the receiver's thread, which it must not keep.

    The subscriptions have ``raw`` and ``manual_ack``. Of what others without the sink want as well, or one
    with a key wants, their callback is called instead.
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
