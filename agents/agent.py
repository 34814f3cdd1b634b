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

from ..delivery.locks import Changed
from ..delivery.policies import Policy, drop
from ..discovery.static import parse_peers, resolve
from ..protocol.errors import AgentClosed
from ..protocol.keyring import Role
from . import endpoints, loop
from .answering import Answering
from .bundles import Outbox
from .counters import Counters
from .deferred import Deferred
from .dispatch import Executor
from .endpoints import RANDOM_TCP
from .keeper import Keeper
from .links import local
from .links.linking import Linking
from .links.outlets import Outlets
from .peers import Peer
from .publisher import Publisher
from .publishing import Publishing
from .quickway import QuickWay
from .reply import Reply
from .requests import Requester
from .settings import load
from .subscribing import Subscribing
from .subscription import Callback, Subscription
from .wire import Protocol

logger = logging.getLogger("pzc.agent")


class Agent(Publishing):
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

    _concurrency = 1
    _affine = False
    _reads_while_locked = False

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
        answering = self._answering = Answering(
            owner, rep_endpoint, protocol, self.agent_id, self.name, counters,
            concurrency=self._concurrency, affine=self._affine, reads_while_locked=self._reads_while_locked,
            role_needed=self.role_needed, on_request=self.on_request, on_lock_change=self._on_lock_change,
        )  # fmt: skip
        try:
            self._outlets = Outlets(owner, protocol, counters)
            self._publisher = Publisher(
                owner, pub_endpoint, protocol, self.agent_id, counters, self._outlets, self._on_filters
            )
        except BaseException:
            answering.abandon()
            raise
        self._publisher.rep_endpoint = self.rep_endpoint
        _running.add(self)
        self._control = answering.attach_control(self._publisher, self.describe, self._stop_from_loop)
        self._control.words["statistics"] = lambda request, _: answering.replies.reply(
            request, self.statistics()
        )
        self._linking = Linking(
            self._outlets, owner, protocol, self.agent_id, self.name, answering.replies,
            self._publisher.on_links,
        )  # fmt: skip
        self._control.words.update(self._linking.words)
        self._requester = Requester(owner.context, protocol, self.agent_id, self.rep_endpoint, counters)
        self._deferred = Deferred(owner, self._requester, counters)
        self.keeper = Keeper(owner, self.exchange_later)
        self._subscribing = Subscribing(owner, protocol, counters, self._requester)
        if not protocol.signed:
            endpoints.warn_unsigned(self.rep_endpoint)
        self._prepare()
        owner.run(answering.start)
        owner.run(self._publisher.start)
        local.offer(self.agent_id, self._linking, protocol.fingerprint)

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
        return self._answering.responder.endpoint

    @property
    def pub_endpoint(self) -> str:
        """Where it publishes, with the real port."""
        return self._publisher.endpoint

    @property
    def epoch(self) -> int:
        """32-bit number of this start."""
        return self.protocol.epoch

    def check_usable(self) -> None:
        """AgentClosed when it was stopped, or is the parent's of this forked process."""
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

    def exchange(
        self,
        recipient: str,
        content: object,
        timeout: float,
        *,
        transport: str = "auto",
        idempotent: bool = False,
    ) -> Reply:
        """As `request`; the answer with its serializer and whether it was signed.

        Args:
            recipient: as `request`.
            content: as `request`.
            timeout: as `request`.
            transport: ``auto``, ``unix`` or ``tcp``.
            idempotent: send it again, with back-off, when the peer was lost: it may then run twice.
        """
        self.check_usable()
        if self.loop.in_thread():
            raise AgentClosed("a request from the I/O thread would wait for itself")
        return self._requester.request(self.resolve(recipient), content, timeout, transport, idempotent)

    def quick_way(self, peer: Peer, kind: str) -> QuickWay:
        """The shortest way to a peer over ``unix`` or ``tcp``, for what can take it."""
        return self._requester.quick_way(peer, kind)

    def send(self, recipient: str, content: object, timeout: float, *, transport: str = "auto") -> None:
        """Send a request that says of itself that it wants no answer; errors as `request`."""
        self.check_usable()
        self._requester.send(self.resolve(recipient), content, timeout, transport)

    def exchange_later(self, peer: Peer, content: object, timeout: float) -> Future[Reply]:
        """As `exchange`, to a known peer, without waiting."""
        self.check_usable()
        return self._deferred.submit(peer, content, timeout)

    def outbox(self, peer: Peer) -> Outbox | None:
        """Where calls gather that are sent to a peer together; None when it takes them one by one."""
        return self._deferred.outbox(peer, self.protocol, self.keeper.hold)

    def peer(self, target: str, timeout: float = 30.0) -> Peer:
        """Who is behind an endpoint or name; errors as `request`."""
        self.check_usable()
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
        transport: str = "auto",
        throttle: float | None = None,
    ) -> Subscription:
        """Get another agent's notifications; returns when it has confirmed the subscription.

        Args:
            publisher: REP endpoint or name.
            topic: one topic, or ``*`` for all.
            callback: called with each Notification, one callback of the agent at a time; None to use
                `recv` or iteration.
            policy: ``drop(n)`` (default, 1000), ``latest(k)`` or ``block()``.
            key: only notifications with this key.
            raw: do not decode; give the five frames.
            timeout: seconds for the publisher's confirmation.
            executor: thread for the callback, instead of the agent's.
            transport: ``inproc``, ``unix`` or ``tcp`` for that way and no other; ``auto``: the first of
                them that works for ``block()``, and broadcast for the other policies.
            throttle: at most so many notifications per second.

        Raises:
            PolicyRefused: for a policy that this publisher, or this way, does not offer.
            ConfigError: for an argument that cannot be used.
            PeerLost: also when a transport does not reach the publisher.
            CallTimeout, SignatureError, UnknownName: as `request`.
        """
        self.check_usable()
        return self._subscribing.subscribe(
            self.resolve(publisher), topic, callback, policy or drop(), key, raw, timeout,
            executor or self._callbacks, transport, throttle,
        )  # fmt: skip

    def unsubscribe(self, publisher: str, topic: str) -> int:
        """Close this agent's subscriptions to a topic; returns how many there were."""
        return self._subscribing.unsubscribe(self.peer(publisher).agent_id, topic)

    def statistics(self) -> dict[str, Any]:
        """What this agent saw: counts by name, topics, subscriptions."""
        return {
            "counts": self.counters.as_dict(),
            "calls": self._answering.statistics(),
            "topics": self._publisher.statistics(),
            "links": self._outlets.statistics(),
            "subscriptions": self._subscribing.statistics(),
        }

    def describe(self) -> dict[str, Any]:
        """What the handshake tells every peer."""
        codec = self.protocol.codec
        return {
            "agent_id": self.agent_id, "epoch": self.epoch, "name": self.name, "kind": type(self).__name__,
            "rep_endpoint": self.rep_endpoint, "pub_endpoint": self.pub_endpoint,
            "host": socket.gethostname(), "pid": self._pid,
            "dialects": list(codec.accept), "serializers": sorted(codec.accept_serializers),
            "signed": self.protocol.signed, "suites": codec.suites,
            "lane": self._answering.fast.name, "lock": self._answering.holding.describe(), "bundles": True,
        }  # fmt: skip

    def _on_lock_change(self, change: Changed) -> None:
        by = "" if change.by is None or change.by == change.owner else f" by {change.by.label}"
        logger.info("%r: the lock of %s was %s%s", self, change.owner.label, change.kind, by)

    def _on_filters(self) -> None:
        try:
            self.on_subscribers()
        finally:
            self._control.on_filters()

    def on_subscribers(self) -> None:
        """The set of subscribed topics changed; override it. Runs in the I/O thread."""

    def _stop_from_loop(self) -> None:
        threading.Thread(target=self.stop, name="pzc-stop", daemon=True).start()

    def stop(self) -> None:
        """End everything the agent holds: sockets, threads, subscriptions. Again: no effect.

        Called by the request that runs, or in the I/O thread, it returns at once and another thread
        does the work: those two cannot wait for themselves. `join` waits for the end.
        """
        if self._pid != os.getpid():
            return
        if self._answering.in_call() or self.loop.in_thread():
            self._stop_from_loop()
        elif self._stopping.acquire(blocking=False):
            self._end()

    def _end(self) -> None:
        run = self.loop.run
        for step in (
            self._let_go,
            self._close_links,
            self._subscribing.close,
            self.keeper.close,
            self._requester.lines.close,
            partial(self._answering.finish_calls, self._after_calls),
            partial(run, self._answering.close),
            partial(run, self._publisher.close),
            partial(run, self._subscribing.close_socket),
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

    def _after_calls(self) -> None:
        """Cancel what a subclass can of the calls that still run, and give back what they used."""

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the agent was stopped; False after ``timeout`` seconds."""
        return self._stopped.wait(timeout)


_running: set[Agent] = set()


@atexit.register
def _stop_all() -> None:
    for agent in list(_running):
        agent.stop()


os.register_at_fork(after_in_child=_running.clear)
