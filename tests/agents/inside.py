"""Ways into the package: Unix sockets are given up; in what it broadcasts is seen."""

from __future__ import annotations

from pzc import Agent

from tests.contract.rigs.peers import Elsewhere


def dialects_of(publisher: Agent, topic: str) -> tuple[str, ...]:
    """Dialects in which somebody listens to the broadcast of a topic."""
    return tuple(dict.fromkeys(dialect for dialect, _ in publisher._publishing.broadcast.voices(topic)))


def give_up_unix(agent: Agent) -> None:
    """Let an agent answer at its Unix socket no longer."""
    agent.loop.run(agent._answering.unix.stop_listening)


class WithoutUnix(Elsewhere):
    """An agent that never answers at a Unix socket."""

    def _prepare(self) -> None:
        give_up_unix(self)
