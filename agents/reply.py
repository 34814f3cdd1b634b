"""Reply: what came back for a request."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from ..protocol.contents import read_refusal
from ..protocol.errors import PzcError
from ..protocol.message import Message


class Reply(NamedTuple):
    """A decoded reply, how its parts may be decoded, who sent it, and what it refused with.

    ``trusted`` tells whether pickles in it may be unpickled in full, ``key_id`` who signed it.
    """

    content: Any
    serializer: str
    trusted: bool
    sender: str
    key_id: str = ""
    refusal: PzcError | None = None


def reply_of(message: Message, content: Any) -> Reply:
    """A verified message as a reply, with its decoded content."""
    facts = message.facts
    refusal = read_refusal(content) if message.stamp is not None else None
    return Reply(content, message.serializer, facts.trusted, facts.sender, facts.identity.key_id, refusal)


def accepted(reply: Reply) -> Reply:
    """The reply, when it is no refusal.

    Raises:
        PzcError: the refusal.
    """
    if reply.refusal is not None:
        raise copy.copy(reply.refusal)  # the frames of its traceback hold the reply
    return reply
