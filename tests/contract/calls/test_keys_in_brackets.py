"""What may stand in brackets, and after ``in``: what cannot make more of a thing than it is."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from pzc import Agent, OperationRefused, Protocol, Proxy, Server

from tests.contract.rigs.racks import racked

KEY = "a key that both sides know"
TIMEOUT = 10.0


class Range(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Scope:
    """Keeps what is indexed in every way."""

    def __init__(self) -> None:
        self.image: Any = np.arange(12).reshape(3, 4)
        self.gains = {1: "one", (0, "x"): "pair", Range.HIGH: "two"}
        self.names = ["a", "b", "c"]


class Desk(NamedTuple):
    """A proxy of it, and a function that asks for an operation by a message, as any client can write one."""

    scope: Any
    ask: Any


@pytest.fixture(params=[KEY, ""])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    protocol = Protocol(request.param)
    with (
        Server(Scope(), protocol=protocol, discovery=False) as server,
        Proxy(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT) as proxy,
        Agent(protocol=protocol, discovery=False) as agent,
    ):

        def ask(name: str, method: str, *args: object) -> Any:
            options = {"name": name, "method": method, "args": args}
            return agent.request(server.rep_endpoint, ("PSMessage", "exec", options), TIMEOUT)[1:]

        yield Desk(proxy, ask)


@pytest.mark.parametrize(
    "key", [1, -1, (1, 2), (..., 0), (slice(1, 3), 0), slice(None, None, -1), np.int64(2)]
)
def test_numbers_slices_and_tuples_of_them_lead_to_an_item(desk: Desk, key: Any) -> None:
    _, item = desk.ask("image", "__getitem__", key)
    assert np.array_equal(item, Scope().image[key])


def test_keys_of_a_mapping_are_scalars_and_tuples(desk: Desk) -> None:
    scope = desk.scope
    assert (scope.gains[1], scope.gains[0, "x"], scope.gains[np.int64(1)]) == ("one", "pair", "one")
    assert 1 in scope.gains
    assert "b" in scope.names


def test_a_member_of_an_enum_is_a_key() -> None:
    with racked(Scope(), key=KEY) as scope:
        assert scope.gains[Range.HIGH] == "two"


@pytest.mark.parametrize("key", [[0, 1], np.zeros(2, int), bytearray(b"01"), ((0, 1),), ([0], 1), range(2)])
@pytest.mark.parametrize(
    ("name", "method"),
    [("image", "__getitem__"), ("image", "__setitem__"), ("image", "__contains__"), ("names", "__delitem__"),
     ("names", "__contains__"), ("gains", "get")],
)  # fmt: skip
def test_what_holds_many_is_no_key(desk: Desk, name: str, method: str, key: Any) -> None:
    values = (0,) if method == "__setitem__" else ()
    assert "cannot be used as a key" in str(desk.ask(name, method, key, *values))


def test_values_are_not_compared_at_the_server(desk: Desk) -> None:
    assert "does not allow '__eq__'" in str(desk.ask("image", "__eq__", 1))


def test_a_list_in_the_brackets_of_a_proxy_is_an_error_that_says_so(desk: Desk) -> None:
    with pytest.raises(OperationRefused, match="cannot be used as a key"):
        desk.scope.names[[0, 1]]
