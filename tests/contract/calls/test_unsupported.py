"""What an object does not support raises a TypeError, as Python does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pzc import MemberRefused, Proxy, Server, aio

from tests.contract.rigs.supply import TIMEOUT, Supply


def set_item(thing: Any) -> None:
    thing[0] = 1


def delete_item(thing: Any) -> None:
    del thing[0]


def enter(thing: Any) -> None:
    with thing:
        pass


OPERATIONS: dict[str, Callable[[Any], object]] = {
    "iter": iter, "list": list, "in": lambda thing: 1 in thing, "[]": lambda thing: thing[0], "len": len,
    "[key]": lambda thing: thing["a"], "[] =": set_item, "del []": delete_item, "()": lambda thing: thing(),
    "with": enter, "unpacking": lambda thing: (*thing,),
}  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_an_object_does_not_support_is_a_type_error(operation: str) -> None:
    with Server(Supply()) as server, Proxy(server.rep_endpoint, timeout=TIMEOUT) as psu:
        with pytest.raises(TypeError):
            OPERATIONS[operation](psu.ch1)


def test_what_is_served_is_as_little_iterable() -> None:
    with Server(Supply()) as server, Proxy(server.rep_endpoint, timeout=TIMEOUT) as psu:
        with pytest.raises(TypeError):
            iter(psu)


def test_a_missing_member_is_no_type_error() -> None:
    with Server(Supply()) as server, Proxy(server.rep_endpoint, timeout=TIMEOUT) as psu:
        with pytest.raises(MemberRefused) as error:
            psu.volage
    assert not isinstance(error.value, TypeError)


def test_an_awaited_item_of_what_has_none_is_a_type_error() -> None:
    async def main(endpoint: str) -> None:
        async with aio.Proxy(endpoint, timeout=TIMEOUT) as psu:
            await psu.ch1[0]

    with Server(Supply()) as server, pytest.raises(TypeError):
        asyncio.run(main(server.rep_endpoint))
