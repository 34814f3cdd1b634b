"""Drafts: what mailboxes keep of a notification, shared by all of them."""

from __future__ import annotations

from msgspec import Struct

from ...protocol.bundle import Item
from ...protocol.letters import Letter
from ...protocol.postmarks import Postmark


class Draft(Struct, eq=False):
    """A notification, and its letter once a reader has asked for that: the same for all of them.

    Attributes:
        item: as it goes to readers that want the content only.
        letter: with its own frames; None as long as nobody wanted it.
    """

    item: Item
    letter: Letter | None = None

    def sign(self, postmark: Postmark) -> Letter:
        """The letter, made now."""
        letter = self.letter = postmark.letter(self.item)
        return letter
