"""Answering: all of an agent that takes requests, from the two sockets to the answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ...delivery.locks import Changed
from ...protocol.envelope import Identity
from ...protocol.keyring import Role
from ..counters import Counters
from ..notifying.publisher import Publisher
from ..sockets.loop import Loop
from ..wire import Protocol
from . import inproc
from .bundled import Bundled
from .calls import current
from .control import Control
from .execution import Execution
from .fastlane import FastLane
from .holding import Holding
from .lane import Lane
from .replies import Replies, Request
from .responder import Responder
from .results import Results

logger = logging.getLogger("pzc.answering")


class Answering:
    """The REP endpoint, the fast lane, and what happens to a request.

    Args:
        loop: owner of the sockets.
        endpoint: where to answer.
        protocol: formats and checks.
        agent_id: of the agent.
        name: of the agent, for threads.
        counters: where everything is counted.
        concurrency: calls at a time.
        affine: all calls in one thread.
        reads_while_locked: others may read while somebody holds the lock.
        role_needed: role that a content takes.
        on_request: answers; sender, topic, content, message id.
        on_lock_change: told every change of the lock's owner.

    Raises:
        BindError, ConfigError: for the endpoint.
    """

    def __init__(
        self,
        loop: Loop,
        endpoint: str,
        protocol: Protocol,
        agent_id: str,
        name: str,
        counters: Counters,
        *,
        concurrency: int,
        affine: bool,
        reads_while_locked: bool,
        role_needed: Callable[[Any], Role],
        on_request: Callable[[str, str, Any, str], Any],
        on_lock_change: Callable[[Changed], None],
    ) -> None:
        self._loop = loop
        self._agent_id = agent_id
        self._protocol = protocol
        self.lane = Lane(name, concurrency, affine)
        self.replies = Replies(protocol, agent_id, counters)
        self.results = Results(loop, protocol)
        self.execution = Execution(
            loop, protocol, self.replies, self.lane, self.results, self._answer, role_needed, on_request
        )
        self.responder = Responder(
            loop, endpoint, protocol, agent_id, self.replies, counters, self.execution, self.results
        )
        self.bundled = Bundled(loop, self.replies, self.lane, self.results, self.execution)
        self.holding = Holding(loop, self.replies, reads_while_locked, self._forget, on_lock_change)
        self.fast = FastLane(
            loop, protocol, agent_id, self.replies, counters, self.execution, self.results, self.holding.gone
        )
        self.control: Control | None = None

    def attach_control(
        self, publisher: Publisher, describe: Callable[[], dict[str, Any]], stop: Callable[[], None]
    ) -> Control:
        """Make the control words, which need the rest of the agent.

        Args:
            publisher: whose marks are waited for.
            describe: what the handshake tells.
            stop: called after a 'stop' request.
        """
        control = self.control = Control(
            self._loop, self.responder, self.replies, self.execution.calls, self.results, publisher,
            describe, stop,
        )  # fmt: skip
        control.words.update(self.holding.words())
        control.words["calls"] = self.bundled.take
        return control

    def _answer(self, request: Request, content: Any) -> bool:
        return self.control is not None and self.control.answer(request, content)

    def _forget(self, sender: Identity) -> None:
        removed = self.execution.calls.forget_agent(sender)
        self.results.forget_agent(sender)
        if removed:
            logger.warning("%d calls of agent %s, which is gone, were not executed", removed, sender.agent)

    def in_call(self) -> bool:
        """True when the calling thread or task works for a call of this agent."""
        call = current()
        mine = call is not None and (call.lane is self.lane or call in self.execution.calls)
        return mine or self.lane.in_thread()

    def start(self) -> None:
        """Take requests; I/O thread."""
        self.responder.start()
        self.fast.start()
        inproc.offer(self._agent_id, self.execution, self._protocol)

    def finish_calls(self, cancel: Callable[[], None]) -> None:
        """Refuse what waits and let end what runs, in at most 2 s; the answers are still sent.

        Args:
            cancel: ends what could not end by itself, as far as that is possible.
        """
        inproc.withdraw(self._agent_id)
        self._loop.run(self.fast.stop_listening)
        self.lane.close()
        cancel()
        self.fast.close()

    def close(self) -> None:
        """Close the endpoint; I/O thread."""
        self.responder.close()

    def abandon(self) -> None:
        """Give back what the constructor took, of an agent that cannot start."""
        self.fast.stop_listening()
        self.responder.close()

    def statistics(self) -> dict[str, Any]:
        """What runs, waits and is held now."""
        return {
            "running": self.lane.running, "waiting": len(self.lane), "connections": len(self.fast),
            "results_kept": len(self.results), "held": self.holding.holders(),
            "lock": self.holding.describe(),
        }  # fmt: skip
