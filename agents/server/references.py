"""References: what a served object gives that is no value is refused, and never copied to a caller."""

from __future__ import annotations

from typing import TypeVar

from ...protocol.contents import shown
from ...protocol.errors import MemberRefused, SerializeError
from ...protocol.values import PLAIN, first_reference, told

T = TypeVar("T")


def by_value(value: T, name: object, *, read: bool = False) -> T:
    """A value of a served object, to be copied to a caller.

    Args:
        value: what it has or gave.
        name: of the member.
        read: it is an attribute, and nothing ran.

    Raises:
        MemberRefused: for an attribute that is no value (see `pzc.protocol.values`), or holds something that
            is none; it says which member that is, and what to do.
        SerializeError: for the result of a call, likewise.
    """
    if type(value) in PLAIN or (inside := first_reference(value)) is None:
        return value
    what = f"{shown(name)} {'is' if read else 'ran and gave'} {told(value, inside)}"
    raise (MemberRefused if read else SerializeError)(
        f"{what}, which stays at the server: only values are copied. Reach what it has by methods or "
        "properties of the served object, give it a Server of its own, or, when copies are meant, call "
        f"pzc.register_class({type(inside).__qualname__}) at both sides"
    )
