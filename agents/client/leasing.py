"""The agent behind proxies: one per process and protocol, shared, and gone with its last user."""

from __future__ import annotations

from functools import partial

from ...transport.tables import Leases
from ...transport.wire import Protocol
from ..agent import Agent

_agents: Leases[Agent] = Leases()


def lease(protocol: Protocol | None) -> Agent:
    """The process's agent for a protocol; every `lease` needs one `release`.

    Raises:
        ConfigError, BindError: as `Agent`.
    """
    protocol = protocol or Protocol()
    return _agents.lease(protocol.fingerprint, partial(Agent, name="", protocol=protocol))


def release(agent: Agent) -> None:
    """Give a leased agent back; the last user stops it."""
    if _agents.release(agent):
        agent.stop()
