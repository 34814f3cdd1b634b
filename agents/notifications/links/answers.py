"""What a publisher answers to the request for a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ....protocol.contents import as_table
from ....protocol.errors import RemoteProtocolError
from ....protocol.peer import Peer
from ....protocol.reply import Reply
from ....protocol.shown import shown


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The answer, checked.

    Attributes:
        epoch: of the publisher.
        lasts: last number of each topic when its flow began.
        buffers: of each topic.
    """

    epoch: int
    lasts: Mapping[str, int]
    buffers: Mapping[str, int]


def read_confirmed(peer: Peer, reply: Reply) -> Confirmed:
    """What the publisher answered.

    Raises:
        RemoteProtocolError: for anything else.
    """
    fields = as_table(reply.content)
    epoch, lasts, buffers = fields.get("epoch"), fields.get("lasts"), fields.get("buffers", {})
    if fields.get("pzc") != "link" or type(epoch) is not int or not (_counts(lasts) and _counts(buffers)):
        raise RemoteProtocolError(
            f"{peer.endpoint} answered the request for a link with {shown(reply.content, 200)}"
        )
    return Confirmed(epoch, cast("dict[str, int]", lasts), cast("dict[str, int]", buffers))


def _counts(value: object) -> bool:
    return isinstance(value, dict) and all(
        type(name) is str and type(count) is int and count >= 0
        for name, count in cast("dict[Any, Any]", value).items()
    )
