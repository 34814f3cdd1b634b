"""Own classes in json and msgpack: both sides say how instances are written and read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pzc import ConfigError, Protocol, Proxy, PzcError, Server, register_class

from tests.contract.rigs.supply import KEY, TIMEOUT, Supply

BOTH = pytest.mark.parametrize("serializer", ["json", "msgpack"])
EITHER_KEY = pytest.mark.parametrize("key", ["", KEY], ids=["without key", "with key"])


class Point:
    """A class of the lab's own."""

    def __init__(self, x: float, unit: str) -> None:
        self.x, self.unit = x, unit

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


class Path:
    """One that holds others."""

    def __init__(self, points: list[Point]) -> None:
        self.points = points


class Unknown:
    """One that nobody gave hooks for."""


class Broken(Point):
    """One whose reader fails."""


class Fault(RuntimeError):
    """An error with more than a text."""

    def __init__(self, code: int) -> None:
        super().__init__(f"fault {code}")
        self.code = code


class Labelled(dict[str, int]):
    """What json knows already."""


register_class(Point, encode=lambda p: {"x": p.x, "unit": p.unit}, decode=lambda told: Point(**told))
register_class(Path, encode=lambda path: path.points, decode=Path)
register_class(Fault, encode=lambda fault: fault.code, decode=Fault)
register_class(Broken, encode=lambda p: p.x, decode=lambda told: 1 / 0)
register_class(Unknown)


@pytest.fixture
def psu(serializer: str, key: str) -> Iterator[Any]:
    protocol = Protocol(key, serializer)
    with (
        Server(Supply(), protocol=protocol) as server,
        Proxy(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT) as proxy,
    ):
        yield proxy


@BOTH
@EITHER_KEY
def test_an_instance_goes_there_and_back(psu: Any) -> None:
    assert psu.back(Point(1.5, "mm")) == Point(1.5, "mm")


@BOTH
@EITHER_KEY
def test_instances_in_containers_and_in_one_another_go_there_and_back(psu: Any) -> None:
    first, second = Point(1.0, "mm"), Point(2.0, "mm")
    back = psu.back({"way": [Path([first, second])], "__pzc__": [first]})
    assert back["way"][0].points == [first, second]
    assert back["__pzc__"] == [first]


@BOTH
@EITHER_KEY
def test_an_exception_with_hooks_is_written_by_them(psu: Any) -> None:
    back = psu.back(Fault(7))
    assert type(back) is Fault
    assert back.code == 7


@BOTH
@EITHER_KEY
def test_a_class_without_hooks_is_refused_with_what_to_do(psu: Any) -> None:
    with pytest.raises(PzcError, match=r"Unknown.*register_class"):
        psu.back(Unknown())


@BOTH
@EITHER_KEY
def test_a_reader_that_fails_is_an_error_of_that_call_only(psu: Any) -> None:
    with pytest.raises(PzcError):
        psu.back(Broken(1.0, "mm"))
    assert psu.note() == 1


def test_one_hook_without_the_other_is_refused() -> None:
    with pytest.raises(ConfigError, match="both"):
        register_class(Unknown, encode=repr)


def test_hooks_of_what_json_writes_by_itself_are_refused() -> None:
    with pytest.raises(ConfigError, match="dict"):
        register_class(Labelled, encode=dict, decode=Labelled)
