"""The agent behind proxies: one per process and protocol, shared, and gone with its last user."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable

from ..agent import Agent
from ..wire import Protocol


class _Clients:
    """Shared agents by what their protocol accepts and sends, with their number of users."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.agents: dict[Hashable, Agent] = {}
        self.users: dict[Agent, int] = {}


_clients = _Clients()
os.register_at_fork(after_in_child=_clients.forget)


def lease(protocol: Protocol | None) -> Agent:
    """The process's agent for a protocol; every `lease` needs one `release`.

    Raises:
        ConfigError, BindError: as `Agent`.
    """
    protocol = protocol or Protocol()
    with _clients.lock:
        agent = _clients.agents.get(protocol.fingerprint)
        if agent is None:
            agent = _clients.agents[protocol.fingerprint] = Agent(name="", protocol=protocol)
            _clients.users[agent] = 0
        _clients.users[agent] += 1
        return agent


def release(agent: Agent) -> None:
    """Give a leased agent back; the last user stops it."""
    with _clients.lock:
        if agent not in _clients.users:
            return
        _clients.users[agent] -= 1
        if _clients.users[agent]:
            return
        del _clients.users[agent], _clients.agents[agent.protocol.fingerprint]
    agent.stop()
