"""Drafts: what mailboxes keep of a notification, shared by all of them."""

from __future__ import annotations

from msgspec import Struct

from ....protocol.bundle import Item, Record
from ....protocol.records import Records


class Draft(Struct, eq=False, gc=False):
    """A notification, and its record once a reader has asked for that: the same for all of them.

    Attributes:
        item: as it goes to readers that want the content only.
        record: with its own frames; None as long as nobody wanted it.
    """

    item: Item
    record: Record | None = None

    def seal(self, records: Records) -> Record:
        """The record, made now."""
        record = self.record = records.record(self.item)
        return record
