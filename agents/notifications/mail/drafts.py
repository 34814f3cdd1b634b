"""Drafts: what mailboxes keep of a notification, shared by all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from msgspec import Raw, Struct

from ....protocol.bundle import Item
from ....protocol.letters import Letter, item_of
from ....protocol.postmarks import Postmark


class Draft(Struct, eq=False, gc=False):
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


Payload = Draft | bytes
"""What is kept: a draft, or the bytes of a letter that was made when it was published."""


def items_of(payloads: Iterable[Payload]) -> list[Item]:
    """Each as it goes to readers that want the content only."""
    return [item_of(each) if isinstance(each, bytes) else each.item for each in payloads]


def letters_of(payloads: Iterable[Payload], postmark: Postmark) -> list[Letter]:
    """Each with its own frames, to be encoded and nothing else."""
    found = [
        Raw(each) if isinstance(each, bytes) else each.letter or each.sign(postmark) for each in payloads
    ]
    return cast("list[Letter]", found)
