"""The agent behind proxies: one per process and protocol, shared, and gone with its last user."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..transport.tables import Leases
from ..transport.wire import Protocol
from .agent import Agent

_agents: Leases[Agent] = Leases()


def lease(protocol: Protocol | None) -> tuple[Agent, Callable[[], None]]:
    """The process's agent for a protocol, and what gives it back, to be called once.

    Raises:
        ConfigError, BindError: as `Agent`.
    """
    protocol = protocol or Protocol()
    agent = _agents.lease(protocol.fingerprint, partial(Agent, name="", protocol=protocol))
    return agent, partial(_release, agent)


def _release(agent: Agent) -> None:
    if _agents.release(agent):
        agent.stop()
