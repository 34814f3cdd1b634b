"""Presence: is a publisher still there, and is it still the same one?

State of one PUB endpoint that this process is connected to::

    state     event              next       what happens
    absent    watch              awaited
    awaited   connected          present
    present   disconnected       missing    its REP endpoint is asked who is there now
    missing   connected          present    asked: it may be another agent
    missing   `silence` over   lost       told as lost, asked
    lost      connected          present    asked
    any       unwatch            absent

Asking is a handshake by a helper, one at a time per REP endpoint, repeated every
`publisher_retry` until somebody answers: a publisher may come back with another PUB endpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import zmq

from ...protocol import limits
from ...protocol.errors import AgentClosed, PzcError
from ...transport import families
from ...transport.counters import Counters
from ...transport.endpoints import new_monitor, receive_event
from ...transport.loop import Timer
from .receiver import Receiver

logger = logging.getLogger("pzc.presence")


class Presence:
    """Watches the connections of one SUB socket. The receiver's thread only, except `learn`.

    Args:
        receiver: owner of the socket; its helpers ask.
        counters: where everything is counted.
        meet: called by a helper with a REP endpoint; shakes hands anew and passes the
            answer on, or raises PzcError.
        rep_endpoints: the REP endpoints of the publishers at a PUB endpoint.
        on_lost: called with a PUB endpoint that stayed away.
    """

    def __init__(
        self,
        receiver: Receiver,
        counters: Counters,
        meet: Callable[[str], None],
        rep_endpoints: Callable[[str], set[str]],
        on_lost: Callable[[str], None],
    ) -> None:
        self._loop = receiver.loop
        self._helpers = receiver.helpers
        self._counters = counters
        self._meet = meet
        self._rep_endpoints = rep_endpoints
        self._on_lost = on_lost
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._watched: set[str] = set()
        self._greeted: set[str] = set()
        self._missing: dict[str, Timer] = {}
        self._numeric: dict[str, str] = {}
        self._asking: dict[str, bool] = {}
        self._unanswered: set[str] = set()

    def open(self, socket: zmq.Socket[bytes]) -> None:
        """Start to watch a SUB socket; PeerLost, and it is closed, when no descriptor is left for that."""
        self._monitor = new_monitor(socket, zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._socket = socket
        self._loop.register(self._monitor, self._on_event)

    def close(self) -> None:
        """Stop watching and asking."""
        if self._socket is None or self._monitor is None:
            return
        monitor, self._monitor = self._monitor, None
        self._loop.unregister(monitor)
        self._socket.disable_monitor()
        monitor.close(0)
        for endpoint in list(self._watched):
            self.unwatch(endpoint)

    def learn(self, pub_endpoint: str) -> None:
        """Note where an endpoint leads to, because libzmq tells of it by its address; any thread."""
        if (place := families.place(pub_endpoint)) != pub_endpoint:
            self._numeric[place] = pub_endpoint

    def watch(self, pub_endpoint: str) -> None:
        """The socket is about to connect to an endpoint."""
        self._watched.add(pub_endpoint)

    def unwatch(self, pub_endpoint: str) -> None:
        """The socket has given an endpoint up."""
        self._watched.discard(pub_endpoint)
        self._greeted.discard(pub_endpoint)
        self._found(pub_endpoint)

    def _on_event(self) -> None:
        while self._monitor is not None:
            try:
                event = receive_event(self._monitor, zmq.NOBLOCK)
            except zmq.Again:
                return
            endpoint = event.endpoint.decode()
            if endpoint not in self._watched:
                endpoint = self._numeric.get(endpoint, "")
            if endpoint not in self._watched:
                continue
            if event.event == zmq.EVENT_DISCONNECTED:
                self._on_disconnected(endpoint)
            else:
                self._on_connected(endpoint)

    def _on_disconnected(self, endpoint: str) -> None:
        self._counters.add("publishers_disconnected")
        if endpoint not in self._missing:
            self._missing[endpoint] = self._loop.call_later(
                limits.current.silence, partial(self._lost, endpoint)
            )
        self._ask_at(endpoint)

    def _on_connected(self, endpoint: str) -> None:
        self._found(endpoint)
        if endpoint in self._greeted:
            self._ask_at(endpoint)
        self._greeted.add(endpoint)

    def _found(self, endpoint: str) -> None:
        timer = self._missing.pop(endpoint, None)
        if timer is not None:
            timer.cancel()

    def _lost(self, endpoint: str) -> None:
        self._missing.pop(endpoint, None)
        self._on_lost(endpoint)
        self._ask_at(endpoint)

    def _ask_at(self, pub_endpoint: str) -> None:
        for rep_endpoint in self._rep_endpoints(pub_endpoint):
            self.ask(rep_endpoint)

    def ask(self, rep_endpoint: str) -> None:
        """Find out who answers there now; while that is going on, once more afterwards."""
        if rep_endpoint in self._asking:
            self._asking[rep_endpoint] = True
        elif self._monitor is not None:
            self._asking[rep_endpoint] = False
            again = rep_endpoint in self._unanswered
            self._helpers.submit(partial(self._try_meeting, rep_endpoint), again=again)

    def _try_meeting(self, rep_endpoint: str) -> None:
        answered = False
        try:
            self._meet(rep_endpoint)
            answered = True
        except AgentClosed:
            return
        except PzcError as exc:
            logger.info("publisher at %s could not be asked again: %s", rep_endpoint, exc)
        self._loop.call(partial(self._asked, rep_endpoint, answered))

    def _asked(self, rep_endpoint: str, answered: bool) -> None:
        again = self._asking.pop(rep_endpoint, False)
        (self._unanswered.discard if answered else self._unanswered.add)(rep_endpoint)
        if self._monitor is None:
            return
        if not answered:
            self._loop.call_later(limits.current.publisher_retry, partial(self._ask_if_needed, rep_endpoint))
        elif again:
            self.ask(rep_endpoint)

    def _ask_if_needed(self, rep_endpoint: str) -> None:
        if any(rep_endpoint in self._rep_endpoints(endpoint) for endpoint in self._watched):
            self.ask(rep_endpoint)
        else:
            self._unanswered.discard(rep_endpoint)
