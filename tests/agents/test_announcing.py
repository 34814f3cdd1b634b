from __future__ import annotations

import pytest

from pzc import Agent, Server, discover
from pzc.agents.naming.announcing import type_name
from pzc.discovery.events import Appeared, Vanished

from tests.agents.naming_rig import Watch
from tests.contract.rigs.pairs import eventually


class Lamp:
    level = 1


@pytest.mark.parametrize(
    ("given", "name"),
    [(None, ""), ("picture", "picture"), (int, "int"), (Lamp, "tests.agents.test_announcing.Lamp")],
)
def test_a_type_is_called_by_its_full_name(given: str | type | None, name: str) -> None:
    assert type_name(given).endswith(name)
    assert bool(type_name(given)) == bool(name)


def test_the_last_word_of_advertise_counts() -> None:
    with Watch() as watch, Agent(name="meter") as meter:
        meter.advertise("reading", type=int)
        watch.until(Appeared, "/meter/reading")
        meter.advertise("reading", type=float, scope="host")
        (entry,) = discover("**", 0.0, kind="topic")
        assert (entry.type, entry.scope) == ("float", "host")


def test_a_server_is_announced_once_its_object_is_made() -> None:
    with Watch() as watch:
        proxy = Server.serve_in_thread(Lamp, name="lamp")
        _, event = watch.until(Appeared, "/lamp")
        assert (event.entry.kind, event.entry.type) == ("service", "Lamp")
        proxy._proxy_stop_server()
        watch.until(Vanished, "/lamp")
        proxy._proxy_stop_me()


def test_with_an_agent_go_its_topics() -> None:
    with Watch() as watch:
        with Agent(name="meter") as meter:
            meter.advertise("reading")
            watch.until(Appeared, "/meter/reading")
        watch.until(Vanished, "/meter/reading")
        eventually(lambda: not watch.participant.match("**"))
