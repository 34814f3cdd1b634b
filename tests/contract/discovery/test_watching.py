"""`pzc.watch`: who is told what of names that come and go."""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue
from typing import Any

import pytest

import pzc
from pzc import Agent, ConfigError, ReceiveTimeout, Server, SubscriptionClosed, aio, discover, watch

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT


class Supply:
    """Served, so that it is a service."""


def named(change: Any) -> tuple[bool, str]:
    there, entry = change
    return there, entry.name


def test_what_is_there_is_told_first_and_then_what_comes_and_goes_in_order() -> None:
    with Agent(name="came1"), watch(pattern="came*") as watching:
        assert named(watching.recv(TIMEOUT)) == (True, "/came1")
        with Agent(name="came2"):
            assert named(watching.recv(TIMEOUT)) == (True, "/came2")
            assert [entry.name for entry in watching.entries] == ["/came1", "/came2"]
        assert named(watching.recv(TIMEOUT)) == (False, "/came2")
        assert [entry.name for entry in watching.entries] == ["/came1"]


def test_what_changes_is_there_as_it_is_now_and_leaves_as_it_was_last() -> None:
    with Agent(name="shifting") as agent, watch("topic", "/shifting/*") as watching:
        agent.advertise("level", type="float")
        assert watching.recv(TIMEOUT).entry.type == "float"
        agent.advertise("level", type="int")
        wait_until(lambda: [entry.type for entry in watching.entries] == ["int"])
        agent.stop()
        assert (left := watching.recv(TIMEOUT)).entry.type == "int"
        assert not left.there


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("agent", {"/kinds/a", "/kinds/s"}),
        ("service", {"/kinds/s"}),
        ("topic", {"/kinds/a/level"}),
        (None, {"/kinds/a", "/kinds/s", "/kinds/a/level"}),
    ],
)
def test_only_a_kind_that_was_asked_for_is_told(kind: Any, names: set[str]) -> None:
    with watch(kind, "/kinds/**") as watching:
        with Agent(name="a", namespace="kinds") as agent, Server(Supply(), name="s", namespace="kinds"):
            agent.advertise("level")
            found = {named(watching.recv(TIMEOUT)) for _ in names}
            assert found == {(True, name) for name in names}
            with pytest.raises(ReceiveTimeout, match="nothing of /kinds/"):
                watching.recv(0)


def test_names_of_another_partition_are_not_told() -> None:
    with watch(pattern="apart*", partition="east") as watching:
        with Agent(name="apart1", partition="west"), Agent(name="apart2", partition="east"):
            assert named(watching.recv(TIMEOUT)) == (True, "/apart2")


def test_callbacks_are_told_of_what_is_there_and_of_what_comes_and_goes() -> None:
    told: SimpleQueue[tuple[str, str]] = SimpleQueue()
    with Agent(name="told1"):
        with watch(
            pattern="told*",
            on_appear=lambda entry: told.put(("came", entry.name)),
            on_leave=lambda entry: told.put(("left", entry.name)),
        ):
            assert told.get(timeout=TIMEOUT) == ("came", "/told1")
            with Agent(name="told2"):
                assert told.get(timeout=TIMEOUT) == ("came", "/told2")
            assert told.get(timeout=TIMEOUT) == ("left", "/told2")


def test_no_callback_begins_once_it_was_closed() -> None:
    told, entered, leave = list[str](), threading.Event(), threading.Event()

    def came(entry: Any) -> None:
        told.append(entry.name)
        entered.set()
        leave.wait(TIMEOUT)

    watching = watch(pattern="over*", on_appear=came)
    with Agent(name="over1"), Agent(name="over2"):
        assert entered.wait(TIMEOUT)
        closing = threading.Thread(target=watching.close)
        closing.start()
        leave.set()
        closing.join(TIMEOUT)
    assert len(told) == 1


def test_a_callback_may_close_its_watch() -> None:
    over = threading.Event()
    watching = watch(pattern="self*")

    def came(entry: Any) -> None:
        watching.close()
        over.set()

    watching.on_appear = came
    with Agent(name="self1"):
        assert over.wait(TIMEOUT)
    assert watching.closed


def test_iterating_ends_when_it_is_closed() -> None:
    watching, found = watch(pattern="ending*"), list[str]()
    reading = threading.Thread(target=lambda: found.extend(entry.name for _, entry in watching))
    reading.start()
    watching.close()
    reading.join(TIMEOUT)
    assert not reading.is_alive()
    with pytest.raises(SubscriptionClosed):
        watching.recv(TIMEOUT)
    watching.close()


def test_it_can_be_iterated_in_an_event_loop() -> None:
    async def main() -> list[tuple[bool, str]]:
        found: list[tuple[bool, str]] = []
        with aio.watch(pattern="loop*") as watching:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(watching), 0.01)
            with Agent(name="loop1"):
                found.append(named(await asyncio.wait_for(anext(watching), TIMEOUT)))
            async for change in watching:
                found.append(named(change))
                watching.close()
        return found

    assert asyncio.run(main()) == [(True, "/loop1"), (False, "/loop1")]


@pytest.mark.parametrize("wrong", [{"kind": "agents"}, {"pattern": "a b"}, {"partition": "a/b"}])
def test_what_cannot_be_watched_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        pzc.watch(**wrong)


@pytest.mark.parametrize("kind", ["server", "agents"])
def test_a_kind_that_there_is_not_is_refused_instead_of_never_found(kind: Any) -> None:
    for ask in (watch, discover):
        with pytest.raises(ConfigError, match="expected one of agent, service, topic"):
            ask(kind=kind)


@pytest.mark.parametrize("name", ["on_appear", "on_leave"])
def test_a_callback_that_cannot_be_called_is_told_before_anything_comes(name: str) -> None:
    callback: Any = 5
    with pytest.raises(ConfigError, match=f"{name}=5 cannot be used"):
        watch(**{name: callback})
