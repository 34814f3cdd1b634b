"""What listened to names and has ended is kept by nobody, and hears nothing any more."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from pzc import Agent, watch

from tests.contract.rigs.pairs import eventually


def named(_: Agent) -> object:
    agent = Agent(name="other")
    agent.stop()
    return agent


def subscribed(agent: Agent) -> object:
    subscription = agent.subscribe("cam*", "frames")
    subscription.close()
    return subscription


def watched(_: Agent) -> object:
    watching = watch()
    watching.close()
    return watching


@pytest.mark.parametrize("ended", [named, subscribed, watched])
def test_what_has_ended_is_not_kept_by_an_agent_that_still_hears_of_names(
    ended: Callable[[Agent], object],
) -> None:
    with Agent(name="keeping") as agent:
        kept = weakref.ref(ended(agent))
        eventually(lambda: gc.collect() >= 0 and kept() is None)
