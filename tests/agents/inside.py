"""Ways into the package: what it has is taken from it or broken, and what it knows of its readers is seen."""

from __future__ import annotations

import socket
from typing import Any

from pzc import Agent
from pzc.agents.notifications.links import open_links
from pzc.agents.notifications.links.subscribers import Subscribers

from tests.contract.rigs.peers import Elsewhere


def dialects_of(publisher: Agent, topic: str) -> tuple[str, ...]:
    """Dialects in which somebody listens to the broadcast of a topic."""
    return tuple(dict.fromkeys(dialect for dialect, _ in publisher._publishing.broadcast.voices(topic)))


def subscribers(publisher: Agent) -> Subscribers:
    """Whoever an agent publishes to by links and mailboxes."""
    return publisher._publishing.subscribers


def take_shared_memory(agent: Agent) -> None:
    """Let an agent have none."""
    subscribers(agent).ring._max_bytes = 0


def break_connections() -> None:
    """Shut down the Unix connections of all links, as if the kernel had."""
    for link in list(open_links._table.links):
        exchange: Any = getattr(link._transport, "_exchange", None)
        if exchange is not None:
            exchange.stream._socket.shutdown(socket.SHUT_RDWR)


def give_up_unix(agent: Agent) -> None:
    """Let an agent answer at its Unix socket no longer."""
    agent.loop.run(agent._answering.unix.stop_listening)


class WithoutUnix(Elsewhere):
    """An agent that never answers at a Unix socket."""

    def _prepare(self) -> None:
        give_up_unix(self)
