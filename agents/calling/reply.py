"""Reply: what came back for a request."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from ...protocol.errors import PzcError


class Reply(NamedTuple):
    """A decoded reply, how its parts may be decoded, who sent it, and what it refused with."""

    content: Any
    serializer: str
    trusted: bool
    sender: str
    key_id: str = ""
    refusal: PzcError | None = None


def accepted(reply: Reply) -> Reply:
    """The reply, when it is no refusal.

    Raises:
        PzcError: the refusal.
    """
    if reply.refusal is not None:
        raise copy.copy(reply.refusal)  # the frames of its traceback hold the reply
    return reply
