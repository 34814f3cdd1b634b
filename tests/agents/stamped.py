"""Notifications with a time of the test's own."""

from __future__ import annotations

import time

from pzc import Agent
from pzc.protocol.ids import Stamp

from tests.contract.rigs.peers import Frames


def stamped(agent: Agent, content: object, number: int, age: float) -> Frames:
    """A notification of topic ``t``, as an agent would have sent it so many seconds ago."""
    protocol = agent.protocol
    stamp = Stamp(int((time.time() - age) * 1000), protocol.counter()(), protocol.epoch)
    made = protocol.codec.encode(agent.agent_id, "t", content, stamp=stamp, sequence=number)
    return [bytes(frame) for frame in made]
