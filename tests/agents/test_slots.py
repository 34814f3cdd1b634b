"""Slots of one proxy, whose closing others may not have noticed yet."""

from __future__ import annotations

from typing import Any

import pytest

from pzc import AgentClosed
from pzc.agents.client.slots import Slots


def test_whoever_comes_to_connect_when_slots_were_closed_leaves_no_subscription_behind() -> None:
    subscribed: list[Any] = []
    slots = Slots(lambda *args, **options: subscribed.append((args, options)))  # type: ignore[arg-type, return-value]
    slots.close()
    with pytest.raises(AgentClosed):
        slots.connect("changed", print, None)
    assert subscribed == []
