"""What a publisher answers to the words of a link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from ....protocol.contents import as_table, read_refusal
from ....protocol.errors import RemoteProtocolError
from ....protocol.peer import Peer
from ....protocol.reply import Reply
from ....protocol.shown import shown


class Confirmed(NamedTuple):
    """What a publisher says of one interest.

    Attributes:
        interest: its number.
        lasts: last number of each of its topics when it began.
        window: most messages of a block that are not done with.
        refusal: why it gets nothing; None when it does.
    """

    interest: int
    lasts: Mapping[str, int]
    window: int
    refusal: BaseException | None = None


def read_opened(peer: Peer, reply: Reply) -> int:
    """The epoch of a publisher that has opened a link.

    Raises:
        RemoteProtocolError: for any other answer.
    """
    fields = as_table(reply.content)
    epoch = fields.get("epoch")
    if fields.get("pzc") != "link" or type(epoch) is not int:
        raise _strange(peer, reply)
    return epoch


def read_confirmed(peer: Peer, reply: Reply) -> list[Confirmed]:
    """What a publisher answered to commands; what it says of their topics is written down with the peer.

    Raises:
        RemoteProtocolError: for any other answer.
    """
    fields = as_table(reply.content)
    confirmed = fields.get("confirmed")
    if fields.get("pzc") != "interests" or not isinstance(confirmed, list):
        raise _strange(peer, reply)
    try:
        found = [_confirmed(*each) for each in cast("list[Any]", confirmed)]
    except (TypeError, ValueError):
        raise _strange(peer, reply) from None
    peer.learn(fields.get("types"))
    return found


def _confirmed(interest: int, told: Any, window: int | None = None) -> Confirmed:
    if window is None and (error := read_refusal(told)) is not None:
        return Confirmed(interest, {}, 0, error)
    if type(interest) is not int or type(window) is not int or window < 1 or not _counts(told):
        raise ValueError(told)
    return Confirmed(interest, told, window)


def _strange(peer: Peer, reply: Reply) -> RemoteProtocolError:
    return RemoteProtocolError(f"{peer.endpoint} answered a word of a link with {shown(reply.content, 200)}")


def _counts(value: object) -> bool:
    return isinstance(value, dict) and all(
        type(name) is str and type(count) is int and count >= 0
        for name, count in cast("dict[Any, Any]", value).items()
    )
