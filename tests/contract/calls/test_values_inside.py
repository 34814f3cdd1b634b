"""What goes by value is fetched and used where it arrived: nothing of it is called at the server."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pzc import Agent, MemberRefused, Protocol, Proxy, Server, aio

from tests.contract.rigs.calling import KEY, TIMEOUT


class Mode(enum.Enum):
    """How it measures."""

    FAST = 1

    @classmethod
    def first(cls) -> str:
        return "fast"


@dataclasses.dataclass(frozen=True)
class Range:
    """What goes by value, with a method."""

    limit: float

    def double(self) -> float:
        return 2 * self.limit


class Channel:
    """Stays at the server."""

    def off(self) -> str:
        return "off"


class Scope:
    """Holds values and channels, by attributes and by properties."""

    def __init__(self) -> None:
        self.file = Path("/nowhere/trace")
        self.files = {"last": self.file}
        self.trace = np.arange(3)
        self.range = Range(1.0)
        self.mode = Mode.FAST
        self.name = "scope"
        self.kind = Mode
        self.channels = {"A": [Channel()]}
        self.levels = {"low": 1}

    @property
    def computed(self) -> Path:
        return self.file

    def taken(self) -> np.ndarray[Any, Any]:
        return self.trace


INSIDE: list[tuple[Any, ...]] = [
    ("file", "as_posix"), ("computed", "as_posix"), ("files", ("last",), "as_posix"), ("file", "parent", "as_posix"),
    ("trace", "tolist"), ("trace", "T", "tolist"), ("trace", "flat", "copy"), ("range", "double"),
    ("mode", "first"), ("mode", "value", "conjugate"), ("name", "upper"), ("kind", "first"),
]  # fmt: skip
SERIALIZERS = ["pickle", "json", "msgpack"]


def a_call(path: tuple[Any, ...]) -> tuple[str, dict[str, Any]]:
    return "exec", {"on": path[:-1], "name": path[-1], "method": "__call__", "args": (), "kwargs": {}}


def of_it_alone(path: tuple[Any, ...]) -> tuple[str, str, dict[str, Any]]:
    return ("PSMessage", *a_call(path))


WAYS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "call": of_it_alone,
    "batch": lambda path: ("PSMessage", "batch", {"calls": [a_call(path)]}),
    "detached": lambda path: ("PSMessage", "exec", {**a_call(path)[1], "detached": True}),
}


@pytest.mark.parametrize("key", ["", KEY], ids=["unsigned", "signed"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_no_member_of_a_value_is_called(way: str, serializer: str, key: str) -> None:
    with (
        Server(Scope(), protocol=Protocol(key)) as server,
        Agent(protocol=Protocol(key, serializer)) as agent,
    ):
        for path in INSIDE:
            answer = agent.request(server.rep_endpoint, WAYS[way](path), TIMEOUT)
            raised = answer[2]["raised"] if way == "batch" else answer[2]
            assert answer[1] == ("batch" if way == "batch" else "raise"), (path, answer)
            assert "MemberRefused" in str(raised), (path, answer)


def test_an_original_calls_no_member_of_a_value() -> None:
    with (
        Server(Scope(), protocol=Protocol()) as server,
        Agent(protocol=Protocol(dialect="PZC00")) as original,
    ):
        for path in INSIDE:
            assert original.request(server.rep_endpoint, of_it_alone(path), TIMEOUT)[1] == "raise", path


def test_the_refusal_says_that_the_value_is_to_be_fetched() -> None:
    with Server(Scope(), protocol=Protocol()) as server, Agent(protocol=Protocol()) as agent:
        answer = agent.request(server.rep_endpoint, of_it_alone(("trace", "tolist")), TIMEOUT)
        assert "'trace.tolist' is not called here" in str(answer)
        assert "Fetch the value first" in str(answer)


def test_members_of_what_stays_at_the_server_are_called_through_containers_too() -> None:
    called = {("channels", ("A",), (0,), "off"): "off", ("levels", "copy"): {"low": 1}}
    with Server(Scope(), protocol=Protocol()) as server, Agent(protocol=Protocol()) as agent:
        for path, given in called.items():
            assert agent.request(server.rep_endpoint, of_it_alone(path), TIMEOUT)[2] == given


def test_attributes_of_values_are_read_and_copies_are_called() -> None:
    with Server(Scope(), protocol=Protocol(KEY)) as server:
        with Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as scope:
            assert scope.trace.shape == (3,)
            assert (scope.trace.tolist(), scope.range.double(), scope.taken().tolist()) == (
                [0, 1, 2], 2.0, [0, 1, 2],
            )  # fmt: skip


async def touched(endpoint: str) -> None:
    async with aio.Proxy(endpoint, timeout=TIMEOUT) as scope:
        await scope.file.touch()


def test_an_awaited_proxy_touches_no_file_of_the_server(tmp_path: Path) -> None:
    scope = Scope()
    scope.file = tmp_path / "made"
    with Server(scope) as server, pytest.raises(MemberRefused, match=r"'file.touch' is not called here"):
        asyncio.run(touched(server.rep_endpoint))
    assert not scope.file.exists()
