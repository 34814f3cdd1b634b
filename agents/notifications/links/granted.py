"""Granted: what a reader of a link says that it has, and is done with."""

from __future__ import annotations

from typing import Any, cast

from ....protocol.errors import RemoteProtocolError
from ....protocol.shown import shown

_MOST_OTHERS = 10_000


def read_grant(content: dict[str, Any]) -> tuple[int, int, list[int]]:
    """What a reader has, up to which number it is done, and with which others.

    Raises:
        RemoteProtocolError: for a grant of another form.
    """
    received, upto = link_number(content.get("received")), link_number(content.get("upto"))
    others = content.get("others", [])
    if type(others) is not list or len(cast("list[Any]", others)) > _MOST_OTHERS:
        raise RemoteProtocolError("a grant names the other numbers in a list of sane length")
    return received, upto, [link_number(each) for each in cast("list[Any]", others)]


def link_number(value: object) -> int:
    """A number of a link, out of what a reader said.

    Raises:
        RemoteProtocolError: for anything else.
    """
    if type(value) is not int or value < 0:
        raise RemoteProtocolError(f"expected a number of a link, not {shown(value, 40)}")
    return value
