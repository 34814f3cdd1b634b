"""Published: one notification as its publisher holds it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ....protocol.link_messages import Body
from ....shm.ring import Slot


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
        waited: subscribers whose acknowledgement the publisher waits for; None when it does not.
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
