"""Answering: all of an agent that takes requests, from the two sockets to the answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ...delivery.locks import Changed
from ...protocol.keyring import Role
from ...protocol.message import Identity
from ...transport.counters import Counters
from ...transport.endpoints import split
from ...transport.loop import Loop
from ...transport.wire import Protocol
from ..current import current
from ..notifications.publisher import Publisher
from .call import Call, Calls
from .control import Control
from .dispatcher import Dispatcher
from .lane import Lane
from .listener import Listener
from .presence import Presence
from .replies import Replies
from .reply_cache import ReplyCache
from .unix_listener import UnixListener
from .zmq_listener import ZmqListener

logger = logging.getLogger("pzc.answering")

CLOSE_TIMEOUT = 2.0
"""Seconds that `Answering.finish_calls` waits for what runs."""


class Answering:
    """The listeners, the dispatcher, and what it decides by.

    The arguments after ``counters`` are those of `Server` and `Agent`; ``stream`` is the TCP endpoint of
    streams, empty for none, None for any free port beside ``endpoint``.

    Raises:
        BindError, ConfigError: for an endpoint.
    """

    def __init__(
        self,
        loop: Loop,
        endpoint: str,
        stream: str | None,
        protocol: Protocol,
        agent_id: str,
        name: str,
        counters: Counters,
        *,
        concurrency: int,
        affine: bool,
        lanes: int,
        reads_while_locked: bool,
        role_needed: Callable[[Any], Role],
        on_request: Callable[[str, str, Any, str], Any],
        on_lock_change: Callable[[Changed], None],
    ) -> None:
        self._loop = loop
        self.lanes = [Lane(name, concurrency, affine) for _ in range(lanes)]
        self.calls = Calls()
        self.cache = ReplyCache(loop)
        self.replies = Replies(protocol, agent_id, counters)
        self.presence = Presence(
            loop, self.replies, self.calls, reads_while_locked, self._forget, on_lock_change
        )
        self.dispatcher = Dispatcher(
            loop, self.replies, self.lanes, self.cache, self.presence, self.calls, role_needed, on_request
        )
        self._all_lanes = [*self.lanes, self.dispatcher.concurrent]
        self.zmq = ZmqListener(loop, endpoint, protocol, agent_id, self.replies, counters, self.dispatcher)
        self.unix = UnixListener(
            loop, protocol, agent_id, self.replies, counters, self.dispatcher, self.presence
        )
        if stream is None:
            host, _ = split(self.zmq.endpoint)
            stream = f"tcp://{host}:0" if host else ""
        try:
            self.stream = Listener(loop, protocol, agent_id, stream, counters, self.dispatcher)
        except BaseException:
            self.unix.stop_listening()
            self.zmq.close()
            raise

    def attach_control(
        self, publisher: Publisher, describe: Callable[[], dict[str, Any]], stop: Callable[[], None]
    ) -> Control:
        """Make the control words, which need the rest of the agent.

        Args:
            publisher: whose marks are waited for.
            describe: what the handshake tells.
            stop: called after a 'stop' request.
        """
        control = Control(
            self._loop, self.zmq.nonces, self.replies, self.calls, self.cache, publisher, describe, stop
        )
        control.words.update(self.presence.words())
        self.dispatcher.control = control.answer
        return control

    def _forget(self, sender: Identity) -> None:
        cancelled = self.calls.cancel_of(sender)
        self.cache.forget_agent(sender)
        if cancelled:
            logger.warning("%d calls of agent %s, which is gone, were cancelled", cancelled, sender.shown)

    def in_call(self) -> bool:
        """True when the calling thread or task works for a call of this agent."""
        call = current()
        ours = isinstance(call, Call) and (call.lane in self._all_lanes or self.calls.has(call))
        return ours or any(lane.in_thread() for lane in self._all_lanes)

    def start(self) -> None:
        """Take requests; I/O thread."""
        self.zmq.start()
        self.unix.start()
        self.stream.start()

    def finish_calls(self, cancel: Callable[[], None]) -> None:
        """Refuse what waits and let end what runs, in at most 2 s; the answers are still sent.

        Args:
            cancel: ends what could not end by itself, as far as that is possible.
        """
        self._loop.run(self.unix.stop_listening)
        self._loop.run(self.stream.stop_listening)
        self.dispatcher.close(CLOSE_TIMEOUT)
        cancel()
        self.unix.close()
        self.stream.close()
        self.presence.close()

    def close(self) -> None:
        """Close the endpoint; I/O thread."""
        self.zmq.close()

    def abandon(self) -> None:
        """Give back what the constructor took, of an agent that cannot start."""
        self.unix.stop_listening()
        self.stream.stop_listening()
        self.zmq.close()

    def statistics(self) -> dict[str, Any]:
        """What runs, waits and is held now."""
        return {
            "running": sum(len(lane.running) for lane in self._all_lanes),
            "waiting": sum(map(len, self._all_lanes)), "connections": len(self.unix) + len(self.stream),
            "results_kept": len(self.cache), "held": self.presence.holders(),
            "lock": self.presence.describe(),
        }  # fmt: skip
