"""Published: one notification as its publisher holds it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from msgspec import Struct

from ....protocol.link_messages import Body, Row
from ....protocol.records import Records
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


class Mailed(Struct, eq=False, gc=False):
    """What mailboxes keep of a notification, all of them the same: without the object, and in no block.

    Attributes:
        topic: of the notification.
        row: of the notification, without proof.
        sealed: the row with its proof; None as long as nobody needs it.
    """

    topic: str
    row: Row
    sealed: Row | None = None


def seal(
    topic: str, mailed: Sequence[Mailed], records: Records, lock: AbstractContextManager[object]
) -> list[Row]:
    """Rows of a topic with their proofs, made without any lock where there is none.

    ``lock``: of whoever shares them.
    """
    bare = [each for each in mailed if each.sealed is None]
    made = records.prove(topic, [each.row for each in bare])
    with lock:  # what two threads made at once is what the first one made
        for each, row in zip(bare, made, strict=True):
            if each.sealed is None:
                each.sealed = row
    return [each.sealed or each.row for each in mailed]
