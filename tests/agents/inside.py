"""Ways into the package: what it has is taken from it or broken, and what it knows of its readers is seen."""

from __future__ import annotations

from pzc import Agent
from pzc.agents.notifications.links.subscribers import Subscribers


def subscribers(publisher: Agent) -> Subscribers:
    """Whoever an agent publishes to by links and mailboxes."""
    return publisher._publishing.subscribers


def give_up_unix(agent: Agent) -> None:
    """Let an agent answer at its Unix socket no longer."""
    agent.loop.run(agent._answering.unix.stop_listening)
