from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pzc import Agent, Protocol, RemoteProtocolError, Server

from tests.contract.rigs.calling import KEY, TIMEOUT


class Device:
    """One of everything that an action can meet."""

    def __init__(self) -> None:
        self.level = 1
        self.table = {"a": 1}
        self.calls: list[int] = []

    def step(self, number: int) -> int:
        self.calls.append(number)
        return number

    def fail(self) -> None:
        raise ValueError("out of range")

    def later(self) -> Future[int]:
        future: Future[int] = Future()
        future.set_result(7)
        return future

    def stream(self) -> Iterator[int]:
        yield from range(3)

    async def soon(self) -> int:
        return 7

    async def later_still(self) -> Future[int]:
        return self.later()

    def lambda_of_it(self) -> Any:
        return lambda: None


class Caller:
    """Sends messages of the Proxy-Server protocol as they are."""

    def __init__(self, agent: Agent, server: Server) -> None:
        self.agent, self.server = agent, server

    def __call__(self, action: str, options: object) -> tuple[str, Any]:
        content = self.agent.request(self.server.rep_endpoint, ("PSMessage", action, options), TIMEOUT)
        return content[1], content[2]

    def error(self, action: str, options: object) -> str:
        answer, value = self(action, options)
        assert answer == "raise", (answer, value)
        return value[0]["type"].rpartition(".")[2]


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def call(device: Device) -> Iterator[Caller]:
    with Server(device, protocol=Protocol(KEY)) as server, Agent(protocol=Protocol(KEY)) as agent:
        yield Caller(agent, server)


def exec_of(name: str, *args: Any, **more: Any) -> list[Any]:
    return ["exec", {"name": name, "method": "__call__", "args": args, **more}]


BAD_BATCHES: list[Any] = [
    None, {}, {"calls": None}, {"calls": 7}, {"calls": [7]}, {"calls": [["get"]]}, {"calls": [[7, {}]]},
    {"calls": [["get", {}, 1]]}, {"calls": "get"}, {"calls": [["batch", {"calls": []}]]},
]  # fmt: skip


@pytest.mark.parametrize("options", BAD_BATCHES)
def test_a_malformed_batch_is_refused(call: Caller, device: Device, options: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        call("batch", options)
    assert device.calls == []


def test_a_batch_that_is_too_long_is_refused_and_nothing_of_it_runs(call: Caller, device: Device) -> None:
    with pytest.raises(RemoteProtocolError, match="at most 10000 calls"):
        call("batch", {"calls": [exec_of("step", 1)] * 10_001})
    assert device.calls == []


def test_a_batch_gives_its_results_in_order_and_references_for_what_stays_there(call: Caller) -> None:
    calls = [exec_of("step", 3), ["getattr", {"name": "level"}], ["get", {"name": "step"}], exec_of("soon")]
    answer, told = call("batch", {"calls": calls})
    ([place, third],) = told.pop("refs")
    assert (answer, told) == ("batch", {"results": [3, 1, None, 7], "raised": None})
    assert (place, third["path"], third["kind"]) == (2, ("step",), "method")


@pytest.mark.parametrize("name", ["fail", "later", "stream", "later_still", "_private"])
def test_a_batch_stops_at_the_first_call_that_cannot_be_answered(
    call: Caller, device: Device, name: str
) -> None:
    action, value = call("batch", {"calls": [exec_of("step", 1), exec_of(name), exec_of("step", 2)]})
    assert (action, value["results"], device.calls) == ("batch", [1], [1])
    assert value["raised"] is not None


def test_a_stream_that_a_batch_could_not_keep_is_not_left_open(call: Caller) -> None:
    call("batch", {"calls": [exec_of("stream")]})
    assert call.server.statistics()["streams"] == 0


def test_what_a_coroutine_gives_is_treated_as_what_a_method_gives(call: Caller) -> None:
    assert call(*exec_of("soon")) == ("return", 7)
    assert call(*exec_of("later_still"))[0] == "future_register"


def test_a_call_of_the_holder_of_the_lock_is_judged_by_each_of_its_actions(
    call: Caller, device: Device
) -> None:
    ask = {"pzc": "lock", "token": "t"}
    assert call.agent.request(call.server.rep_endpoint, ask, TIMEOUT)["pzc"] == "lock"
    held = {"lock": "t"}
    assert call("setattr", {"name": "level", "value": 5, **held}) == ("return", None)
    assert call("batch", {"calls": [exec_of("step", 1)], **held})[1]["raised"] is None
    assert call.error("setattr", {"name": "level", "value": 6}) == "LockedBy"
    assert call.error(*exec_of("step", 2)) == "LockedBy"
    assert call.error("getattr", {"name": "level"}) == "LockedBy"
    batch = call("batch", {"calls": [exec_of("step", 3)]})[1]
    assert batch["raised"][0]["type"].endswith("LockedBy")
    assert call("inspect", {})[0] == call("describe", {})[0] == "return"
    assert (device.level, device.calls) == (5, [1])


@pytest.mark.parametrize("options", [None, 7, "text", [], {"name": 7}, {"name": ["level"]}, {"on": 7}])
@pytest.mark.parametrize("action", ["get", "getattr", "setattr", "exec", "next"])
def test_options_of_any_shape_are_an_error_of_the_caller_and_nothing_else(
    call: Caller, action: str, options: Any
) -> None:
    call.error(action, options)
    assert call("getattr", {"name": "level"}) == ("return", 1)


def test_a_one_way_call_is_executed_and_never_answered(call: Caller, device: Device) -> None:
    call.agent.send(call.server.rep_endpoint, ("PSMessage", *exec_of("step", 1, oneway=True)), TIMEOUT)
    assert call(*exec_of("step", 2)) == ("return", 2)
    assert device.calls == [1, 2]
