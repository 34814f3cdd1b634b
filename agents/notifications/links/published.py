"""Published: one notification as the links of its publisher hold it, and its place in one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from ....delivery.flows import Flow
from ....protocol.bundle import Body
from ....shm.ring import Slot

LEASES = 2
"""Blocks that a lossy reader may not be done with: one that it looks at, and one on its way, which it copies
when it goes on looking at the first one."""


class Published(Struct, eq=False):
    """One notification, encoded once for every link.

    Attributes:
        topic: of the notification.
        key: what it is about.
        content: the object itself, for links inside the process.
        serializer: of the body; empty when it was not encoded.
        body: the encoded content; as long as somebody holds it, the block that it lies in is not written.
        slot: the block that the body lies in; None for memory of this process.
        number: within the topic; 0 until it is taken.
        sent_ms: Unix time in milliseconds.
        waited: outlets whose acknowledgement the publisher waits for; None when it does not.
    """

    topic: str
    key: str
    content: Any
    serializer: str = ""
    body: Body = b""
    slot: Slot | None = None
    number: int = 0
    sent_ms: int = 0
    waited: set[Any] | None = None


@dataclass(slots=True, eq=False)
class Leg:
    """A topic on one link.

    Attributes:
        outlet: the `Outlet` that it is of, which knows its legs.
        topic: its topic.
        flow: what becomes of a message.
        began: the topic's last number before the flow began.
        last: the topic's last number that was offered to this reader.
        told: the last number that the reader has got or was told of.
    """

    outlet: Any
    topic: str
    flow: Flow[Posted]
    began: int
    last: int
    told: int

    @property
    def delivered(self) -> int:
        """Messages that the reader is done with."""
        flow = self.flow
        return self.last - self.began - flow.dropped - flow.outstanding - flow.pending

    @property
    def blocks(self) -> bool:
        """The publisher waits for this reader."""
        return not self.flow.policy.lossy


class Posted(Struct, eq=False):
    """A notification on its way over one link.

    Attributes:
        leg: its topic on the link.
        published: what is sent.
        block: id of the block that the link holds for it; 0 when the body goes with the message.
        ahead: bytes that it counts among those sent to a lossy reader; -1 for a reader that is waited for.
        lost: how many of its topic were dropped before it; told with it.
    """

    leg: Leg
    published: Published
    block: int
    ahead: int = -1
    lost: int = 0
