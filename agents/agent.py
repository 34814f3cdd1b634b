"""Agent: REP, PUB, one SUB and one REQ per peer, behind one object.

::

    state      event                                     next
    running    stop(), or a 'stop' request (0.1 s later) stopping: waiting requests are refused
    stopping   running request answered (at most 2 s),   stopped
               sockets closed, threads ended
    any        used in a forked child                    AgentClosed is raised
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Any

from ..delivery.policies import Policy, drop
from ..discovery.static import parse_peers, resolve
from ..protocol.errors import AgentClosed, CallTimeout
from ..protocol.frames import PZC01
from ..protocol.keyring import Role
from . import endpoints, loop
from .control import Control
from .counters import Counters
from .deferred import Deferred
from .dispatch import Executor
from .endpoints import RANDOM_TCP
from .lane import Lane, authorize
from .peers import Peer
from .publisher import Publisher
from .requests import Reply, Requester
from .responder import Request, Responder
from .settings import load
from .subscriber import Subscriber
from .subscription import Callback, Subscription
from .wire import Protocol

logger = logging.getLogger("pzc.agent")


class Agent:
    """Something that can be asked, can publish, ask others, and subscribe.

    Args:
        rep_endpoint: where to answer requests: ``tcp://HOST:PORT`` (port 0: any free one),
            ``ipc://PATH`` or ``inproc://NAME``.
        pub_endpoint: where to publish; same forms.
        name: how it calls itself; default empty.
        protocol: default `Protocol`, which reads the ``PZC_`` variables.

    Raises:
        BindError: naming the endpoint and the reason.
        ConfigError: for an endpoint or setting that cannot be used.
    """

    def __init__(
        self,
        rep_endpoint: str = RANDOM_TCP,
        pub_endpoint: str = RANDOM_TCP,
        *,
        name: str | None = None,
        protocol: Protocol | None = None,
    ) -> None:
        self.name = name or ""
        self.settings = load()
        self.protocol = protocol or Protocol(settings=self.settings)
        self.agent_id = os.urandom(16).hex()
        self.counters = Counters()
        self._pid = os.getpid()
        self._names = parse_peers(self.settings["PZC_PEERS"])
        self._callbacks = Executor(f"pzc-callbacks {self.name}".strip())
        self._stopping = threading.Lock()
        self._stopped = threading.Event()
        self.loop = loop.acquire()
        try:
            self._open(rep_endpoint, pub_endpoint)
        except BaseException:
            loop.release(self.loop)
            raise

    def _open(self, rep_endpoint: str, pub_endpoint: str) -> None:
        owner, protocol, counters = self.loop, self.protocol, self.counters
        self._responder = Responder(owner, rep_endpoint, protocol, self.agent_id, counters, self._handle)
        try:
            self._publisher = Publisher(
                owner, pub_endpoint, protocol, self.agent_id, counters, self._on_filters
            )
        except BaseException:
            self._responder.close()
            raise
        self._publisher.rep_endpoint = self.rep_endpoint
        _running.add(self)
        self._control = Control(
            owner, self._responder, self._publisher, self.describe, authorize, self._stop_from_loop
        )
        self._control.words["statistics"] = lambda request, _: self._responder.reply(
            request, self.statistics()
        )
        self._lane = Lane(
            self.name, protocol, self._responder, self._control.answer, self.role_needed, self.on_request
        )
        self._requester = Requester(owner.context, protocol, self.agent_id, self.rep_endpoint, counters)
        self._deferred = Deferred(owner, self._requester, counters)
        self._subscriber = Subscriber(owner, protocol, counters, self._meet_again)
        if not protocol.signed:
            endpoints.warn_unsigned(self.rep_endpoint)
        self._prepare()
        owner.run(self._responder.start)
        owner.run(self._publisher.start)

    def _handle(self, request: Request) -> None:
        self._lane.handle(request)

    def _prepare(self) -> None:
        """What a subclass makes before the first request can come."""

    def __repr__(self) -> str:
        state = " (stopped)" if self._stopped.is_set() else ""
        return f"<{type(self).__name__} {self.name or self.agent_id[:8]} at {self.rep_endpoint}{state}>"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def rep_endpoint(self) -> str:
        """Where it answers, with the real port."""
        return self._responder.endpoint

    @property
    def pub_endpoint(self) -> str:
        """Where it publishes, with the real port."""
        return self._publisher.endpoint

    @property
    def epoch(self) -> int:
        """32-bit number of this start."""
        return self.protocol.epoch

    def _check_usable(self) -> None:
        if self._pid != os.getpid():
            raise AgentClosed(f"{self!r} belongs to the parent of this forked process: make a new one here")
        if self._stopped.is_set():
            raise AgentClosed(f"{self!r} was stopped")

    def resolve(self, target: str) -> str:
        """The endpoint of a target that is an endpoint or a name.

        Raises:
            UnknownName: for a name that nobody told.
            ConfigError: for an endpoint that cannot be used.
        """
        return endpoints.check(target) if "://" in target else resolve(target, self._names)

    def request(self, recipient: str, content: object, timeout: float = 30.0) -> Any:
        """Send content to another agent and return its answer; any thread.

        Args:
            recipient: REP endpoint or name.
            content: anything the serializer can express.
            timeout: seconds, everything included.

        Raises:
            CallTimeout: no reply in time; the request may or may not have been executed.
            PeerLost: nobody answers there.
            SignatureError: keys differ.
            SerializeError: the content cannot be expressed.
            PzcError: whatever the peer refused with.
        """
        return self.exchange(recipient, content, timeout).content

    def exchange(self, recipient: str, content: object, timeout: float) -> Reply:
        """As `request`; the answer with its serializer and whether it was signed."""
        self._check_usable()
        if self.loop.in_thread():
            raise AgentClosed("a request from the I/O thread would wait for itself")
        return self._requester.request(self.resolve(recipient), content, timeout)

    def exchange_later(self, peer: Peer, content: object, timeout: float) -> Future[Reply]:
        """As `exchange`, to a known peer, without waiting."""
        self._check_usable()
        return self._deferred.submit(peer, content, timeout)

    def peer(self, target: str, timeout: float = 30.0) -> Peer:
        """Who is behind an endpoint or name; errors as `request`."""
        self._check_usable()
        return self._requester.peer(self.resolve(target), time.monotonic() + timeout)

    def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
        """Answer a request; override it. Runs in the lane, one request at a time.

        Requests ``'info'``, ``'ping'`` and ``'stop'`` are answered before they come here. The
        default echoes the content.

        Args:
            sender: agent id, or REP endpoint of an original Pizco.
            topic: empty with PZC01.
            content: decoded.
            msgid: the request's id.
        """
        return content

    def role_needed(self, content: Any) -> Role:
        """The role that a signed request needs; override it with `on_request`."""
        return Role.OBSERVER

    def publish(self, topic: str, content: object, *, key: str | None = None) -> int:
        """Send a notification to whoever subscribed; any thread.

        Args:
            topic: not empty.
            content: anything the serializer can express; not changed and not kept.
            key: what it is about within the topic.

        Returns:
            The sequence number within the topic, from 1.

        Raises:
            SerializeError, LocalProtocolError, CallTimeout: see `Publisher.publish`.
            AgentClosed: after `stop`.
        """
        self._check_usable()
        return self._publisher.publish(topic, content, key or "")

    def subscribe(
        self,
        publisher: str,
        topic: str,
        callback: Callback | None = None,
        *,
        policy: Policy | None = None,
        key: str | None = None,
        raw: bool = False,
        timeout: float = 5.0,
        executor: Executor | None = None,
    ) -> Subscription:
        """Get another agent's notifications; returns when it has confirmed the subscription.

        Args:
            publisher: REP endpoint or name.
            topic: one topic, or ``*`` for all.
            callback: called with each Notification, one at a time, in the agent's callback
                thread; None to use `recv` or iteration.
            policy: ``drop(n)`` (default, 1000) or ``latest(k)``.
            key: only notifications with this key.
            raw: do not decode; give the five frames.
            timeout: seconds for the publisher's confirmation.
            executor: thread for the callback, instead of the agent's.

        Raises:
            PolicyRefused: for a policy that broadcast notifications cannot keep.
            CallTimeout, PeerLost, SignatureError, UnknownName: as `request`.
        """
        self._check_usable()
        deadline = time.monotonic() + timeout
        peer = self._requester.peer(self.resolve(publisher), deadline)
        thread = executor or self._callbacks
        subscription = Subscription(
            peer.agent_id, topic, callback, policy or drop(), key, thread, self._subscriber.remove, raw
        )
        mark = self._subscriber.add(peer, subscription)
        try:
            if peer.dialect == PZC01:
                self._confirm(peer, topic, mark, deadline)
        except BaseException:
            subscription.close()
            raise
        return subscription

    def _confirm(self, peer: Peer, topic: str, mark: str, deadline: float) -> None:
        content = {"pzc": "placed", "mark": mark, "topic": topic}
        while True:
            left = deadline - time.monotonic()
            answer = self._requester.request(peer.endpoint, content, max(left, 0.001)).content
            if answer.get("placed"):
                self._subscriber.confirmed(peer, topic, mark, answer["epoch"], answer["last"])
                return
            if left <= 0:
                raise CallTimeout(f"{peer.endpoint} never saw the subscription at {peer.pub_endpoint}")

    def unsubscribe(self, publisher: str, topic: str) -> int:
        """Close this agent's subscriptions to a topic; returns how many there were."""
        peer = self.peer(publisher)
        found = [
            s for s in self._subscriber.subscriptions() if s.publisher == peer.agent_id and s.topic == topic
        ]
        for subscription in found:
            subscription.close()
        return len(found)

    def wait_for_subscribers(self, topic: str, n: int = 1, timeout: float = 5.0) -> bool:
        """Wait until ``n`` agents subscribe to a topic of this one; False after ``timeout`` seconds."""
        return self._publisher.wait_for_subscribers(topic, n, timeout)

    def statistics(self) -> dict[str, Any]:
        """What this agent saw: counts by name, topics, subscriptions."""
        return {
            "counts": self.counters.as_dict(),
            "topics": self._publisher.statistics(),
            "subscriptions": [
                {"topic": s.topic, "publisher": s.publisher, "received": s.received, "dropped": s.dropped,
                 "pending": s.pending, "gaps": len(s.gaps)}
                for s in self._subscriber.subscriptions()
            ],
        }  # fmt: skip

    def describe(self) -> dict[str, Any]:
        """What the handshake tells every peer."""
        codec = self.protocol.codec
        return {
            "agent_id": self.agent_id, "epoch": self.epoch, "name": self.name, "kind": type(self).__name__,
            "rep_endpoint": self.rep_endpoint, "pub_endpoint": self.pub_endpoint,
            "host": socket.gethostname(), "pid": self._pid,
            "dialects": list(codec.accept), "serializers": sorted(codec.accept_serializers),
            "signed": self.protocol.signed,
        }  # fmt: skip

    def _on_filters(self) -> None:
        self.on_subscribers()
        self._control.on_filters()

    def on_subscribers(self) -> None:
        """The set of subscribed topics changed; override it. Runs in the I/O thread."""

    def _meet_again(self, endpoint: str) -> None:
        self._requester.peers.forget(endpoint)
        deadline = time.monotonic() + 5.0
        peer = self._requester.peer(endpoint, deadline)
        for topic, mark in self._subscriber.moved(endpoint, peer):
            self._confirm(peer, topic, mark, deadline)

    def _stop_from_loop(self) -> None:
        threading.Thread(target=self.stop, name="pzc-stop", daemon=True).start()

    def stop(self) -> None:
        """End everything the agent holds: sockets, threads, subscriptions. Again: no effect.

        Called by the request that runs, or in the I/O thread, it returns at once and another thread
        does the work: those two cannot wait for themselves. `join` waits for the end.
        """
        if self._pid != os.getpid():
            return
        if self._lane.in_thread() or self.loop.in_thread():
            self._stop_from_loop()
        elif self._stopping.acquire(blocking=False):
            self._end()

    def _end(self) -> None:
        run = self.loop.run
        for step in (
            self._let_go,
            self._close_subscriptions,
            self._requester.channels.close,
            self._lane.close,
            partial(run, self._responder.close),
            partial(run, self._publisher.close),
            partial(run, self._subscriber.close),
            partial(run, self._deferred.close),
            self._callbacks.close,
            partial(loop.release, self.loop),
        ):
            try:
                step()
            except Exception:
                logger.exception("%r could not let go of everything", self)
        _running.discard(self)
        self._stopped.set()

    def _let_go(self) -> None:
        """Give back what a subclass holds of others; the sockets are still open."""

    def _close_subscriptions(self) -> None:
        for subscription in self._subscriber.subscriptions():
            subscription.close()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the agent was stopped; False after ``timeout`` seconds."""
        return self._stopped.wait(timeout)


_running: set[Agent] = set()


@atexit.register
def _stop_all() -> None:
    for agent in list(_running):
        agent.stop()


os.register_at_fork(after_in_child=_running.clear)
