"""Published: one notification as its publisher holds it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from msgspec import Struct

from ....protocol.link_messages import Body
from ....protocol.records import Frames, Record, Records
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


def seal(
    given: Sequence[Record], records: Records, lock: AbstractContextManager[object]
) -> list[Frames | None]:
    """The frames of records, made without any lock where there are none; ``lock``: of whoever shares them.

    None is for what the wire cannot carry.
    """
    made = records.seal(given)
    with lock:  # what two threads made at once is what the first one made
        for record, frames in zip(given, made, strict=True):
            if record.frames is None:
                record.frames = frames
    return [record.frames for record in given]
