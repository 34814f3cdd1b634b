"""Pipelines: all requests of an agent that nobody waits for now, and what becomes of those without a reply.

The rules are those of `Exchanges`; what they need to wait for is done in helpers' threads.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from functools import partial
from typing import Any

from ...protocol import limits
from ...protocol.contents import control
from ...protocol.errors import AgentClosed, CallTimeout, LocalLimit, PzcError, Refused
from ...protocol.frames import PZC01
from ...protocol.message import Message
from ...transport.endpoints import is_direct
from ...transport.executor import NO_THREAD, Executor
from ...transport.greeting import GREETING
from ...transport.loop import Loop
from ...transport.peer import Peer
from ...transport.timers import until_next
from ..reply import Reply, accepted, reply_of
from .connection_pool import Pools
from .exchanges import Exchanges
from .heartbeat import Heartbeat
from .many import UnixTransport
from .notes import late
from .pending import Pending
from .pipeline import Pipeline

logger = logging.getLogger("pzc.requests")

ANSWERS = 1.0
"""Seconds in which a peer answers a request over tcp, behind which others may go over a Unix connection."""


class Pipelines:
    """The pipelines of one agent, by endpoint and agent; safe from any thread.

    Args:
        loop: of the I/O thread.
        pools: seal messages, and open Unix connections.
        exchanges: has the rules, and shakes hands.
        heartbeat: shows servers that the agent is alive.

    Attributes:
        pending: requests in flight.
    """

    def __init__(self, loop: Loop, pools: Pools, exchanges: Exchanges, heartbeat: Heartbeat) -> None:
        self.loop = loop
        self.counters = exchanges.counters
        self.heartbeat = heartbeat
        self.pending: dict[Pending, None] = {}
        self._closed = exchanges.closed
        self._pools = pools
        self._exchanges = exchanges
        self._of: dict[tuple[str, str], Pipeline] = {}
        self._making = threading.Lock()
        self._sweeping = False
        self._helpers = Executor("pzc-client", threads=4)

    def of(self, peer: Peer) -> Pipeline:
        """The pipeline to a peer.

        Raises:
            AgentClosed: when the agent was stopped.
        """
        if self._exchanges.unusable:
            raise AgentClosed(self._exchanges.unusable)
        key = peer.endpoint, peer.agent_id
        pipeline = self._of.get(key)
        if pipeline is None or pipeline.closed:
            with self._making:
                if self._exchanges.unusable:  # not before `_close`: calls that end until then are cancelled
                    raise AgentClosed(self._exchanges.unusable)
                pipeline = self._of.get(key)
                if pipeline is None or pipeline.closed:
                    pipeline = self._of[key] = Pipeline(self, peer, self._pools.connector.sealed(peer))
                if not self._sweeping:
                    self._sweeping = True
                    self._sweep_later()
        return pipeline

    def _sweep_later(self) -> None:
        self.loop.call_later(until_next(limits.current.connection_idle / 2), self._sweep)

    def _sweep(self) -> None:
        """Give up the pipelines to agents that nobody holds any more, or that others have replaced."""
        for key, pipeline in list(self._of.items()):
            endpoint, agent_id = key
            pool, known = self._pools.find(endpoint), self._exchanges.known(endpoint)
            held = pool is not None and pool.users and (known is None or known.agent_id == agent_id)
            if not held and pipeline.rest():
                with self._making:
                    if self._of.get(key) is pipeline:
                        del self._of[key]
        with self._making:
            self._sweeping = bool(self._of)
        if self._sweeping:
            self._sweep_later()

    def drop(self, entry: Pending) -> bool:
        """A request is not in flight any more; False when it was not."""
        pipeline = self._pipeline_of(entry)
        return pipeline is not None and pipeline.remove(entry)

    def wait_for_id(self, entry: Pending) -> None:
        """Wait at most a moment until a request that was submitted has an id, or is over."""
        pipeline = self._pipeline_of(entry)
        if pipeline is not None:
            pipeline.wait_for_id(entry)

    def _pipeline_of(self, entry: Pending) -> Pipeline | None:
        return self._of.get((entry.peer.endpoint, entry.peer.agent_id))

    def leave(self, endpoint: str) -> None:
        """Nobody holds the peer at an endpoint any more."""
        for (place, _), pipeline in list(self._of.items()):
            if place == endpoint:
                pipeline.leave_unix()

    def close(self) -> None:
        """Fail what is in flight, and close every connection; not in the I/O thread."""
        self._helpers.close()
        self.loop.run(self._close)

    def _close(self) -> None:
        with self._making:
            self._exchanges.unusable = self._closed.reason
            pipelines = list(self._of.values())
            self._of.clear()
        for pipeline in pipelines:
            pipeline.close(self._closed.error)

    # --- see `Owner` -----------------------------------------------------------------------------------

    def refused(self, entry: Pending, message: Message, content: Any) -> None:
        """A request was refused: perhaps by an agent that has replaced its peer, which takes a handshake."""
        reply = reply_of(message, content)
        try:
            if entry.again and reply.sender == entry.peer.agent_id:
                accepted(reply)
            self._helpers.submit(partial(self._again, entry, reply))
        except LocalLimit:  # no thread is left, for now
            self.loop.call_later(NO_THREAD, partial(self.refused, entry, message, content))
        except PzcError as exc:
            self.drop(entry)
            entry.fail(exc)

    def _again(self, entry: Pending, reply: Reply) -> None:
        """Send a refused request once more, if that is right; a helper's thread."""
        try:
            peer = self._exchanges.after_refusal(entry.peer, reply, entry.started, entry.due)
            if self.drop(entry) and not entry.done():
                entry.peer, entry.again = peer, True
                self.of(peer).submit(entry)
        except Exception as exc:
            self.drop(entry)
            timeout = isinstance(exc, CallTimeout)
            entry.fail(late(exc, entry.peer.endpoint, entry.seconds) if timeout else exc)

    def crowded(self, pipeline: Pipeline) -> None:
        """Many requests are in flight to one peer: a Unix connection is quicker; any thread."""
        peer = pipeline.peer
        if peer.dialect == PZC01 and peer.has_lane and is_direct(peer):
            with contextlib.suppress(AgentClosed, LocalLimit):  # without a thread it stays with tcp
                self._helpers.submit(partial(self._go_over, pipeline))

    def _go_over(self, pipeline: Pipeline) -> None:
        """Open a Unix connection for a pipeline; a helper's thread."""
        deadline = time.monotonic() + GREETING
        try:
            exchange = self._pools.connector.dedicated(pipeline.peer, deadline)
        except PzcError as exc:
            logger.debug("%s is asked over tcp alone: %s", pipeline.peer.endpoint, exc)
            return
        transport = UnixTransport(exchange, pipeline.deliver, pipeline.lose, self._closed)
        try:
            answer = exchange.ask({"pzc": "pipeline"}, deadline, self._closed)
            if control(answer.decode()) != "pipeline":
                raise Refused("it does not read on")
            last = Pending(pipeline.peer, "ping", ANSWERS)
            transport.start()
            pipeline.go_over(transport, last)
            last.result(ANSWERS)
        except Exception as exc:  # it stays with tcp
            transport.close()
            logger.debug("%s is asked over tcp alone: %s", pipeline.peer.endpoint, exc)
        finally:
            pipeline.let_go()

    def expired(self, entry: Pending) -> None:
        """The time of a request is over."""
        endpoint = entry.peer.endpoint
        if entry.sent:
            self._exchanges.forget(endpoint)
        entry.call_off()
        entry.fail(late(CallTimeout(), endpoint, entry.seconds, entry.note))
