"""The end of a publisher's links."""

from __future__ import annotations

import time
from collections.abc import Callable

from pzc import Agent
from pzc.agents.notifications.links import farewell

from tests.agents.inside import subscribers
from tests.agents.links_reader import UnixReader, wish


def test_a_stop_waits_for_what_somebody_is_just_sending(timings: Callable[..., None]) -> None:
    with Agent() as agent, UnixReader(agent, wish("t")) as reader:
        held = subscribers(agent)
        with held.links[reader.link].sending:
            began = time.monotonic()
            farewell.bid(held)
            assert time.monotonic() - began >= 0.05
