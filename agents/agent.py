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
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ..delivery.locks import Changed
from ..discovery.names import Style
from ..discovery.records import Entry
from ..protocol.errors import AgentClosed
from ..protocol.keyring import Role
from ..protocol.version import VERSION
from .calling.asking import Asking
from .calling.deferred import Deferred
from .calling.keeper import Keeper
from .calling.requests import Requester
from .counters import Counters
from .dispatch import Executor
from .links import local
from .links.linking import Linking
from .links.outlets import Outlets
from .mail.posting import Posting
from .naming.announcing import Announcing
from .naming.naming import Naming
from .naming.topology import Topological
from .notifying.listening import Listening
from .notifying.publisher import Publisher
from .notifying.publishing import Publishing
from .notifying.subscribing import Subscribing
from .notifying.telling import STATISTICS, Telling
from .serving.answering import Answering
from .settings import load
from .sockets import endpoints, loop
from .sockets.endpoints import RANDOM_TCP
from .wire import Protocol

logger = logging.getLogger("pzc.agent")


class Agent(Asking, Publishing, Listening, Topological):
    """Something that can be asked, can publish, ask others, and subscribe.

    Args:
        rep_endpoint: where to answer requests: ``tcp://HOST:PORT`` (port 0: any free one),
            ``ipc://PATH`` or ``inproc://NAME``.
        pub_endpoint: where to publish; same forms, default any free port of the same address.
        name: by which others find it; default none.
        protocol: default `Protocol`, which reads the ``PZC_`` variables.
        namespace: what stands before its name, and before those it looks for; default ``PZC_NAMESPACE``.
        partition: among whom it is found; default ``PZC_PARTITION``.
        discovery: False to be found by its endpoint only, and to find others by ``PZC_PEERS`` only.
        single_port: publish through the REP endpoint only, for NAT; default ``PZC_SINGLE_PORT``.
        remap: names to be used in the place of others, ``{"old": "new"}`` or ``["old:=new"]``: for its own
            name, those it looks for, and those of its topics and of the topics it connects. Default none.
        names: ``pzc`` (default), or ``gz``: a name with ``/`` in front is not in the namespace.

    Raises:
        BindError: naming the endpoint and the reason.
        ConfigError: for an endpoint, setting, name or rule that cannot be used.
    """

    _concurrency = 1
    _affine = False
    _reads_while_locked = False

    def __init__(
        self,
        rep_endpoint: str = RANDOM_TCP,
        pub_endpoint: str = "",
        *,
        name: str | None = None,
        protocol: Protocol | None = None,
        namespace: str = "",
        partition: str | None = None,
        discovery: bool = True,
        single_port: bool | None = None,
        remap: Mapping[str, str] | Iterable[str] = (),
        names: Style = "pzc",
    ) -> None:
        self.settings = load()
        self.protocol = protocol or Protocol(settings=self.settings)
        self.agent_id = os.urandom(16).hex()
        self.counters = Counters()
        self._pid = os.getpid()
        self._naming = Naming(
            self.settings, self.protocol, name or "", namespace, partition, discovery, self._answers,
            self._choose, remap, names,
        )  # fmt: skip
        self.name = self._naming.called
        self._callbacks = Executor(f"pzc-callbacks {self.name}".strip())
        self._stopping = threading.Lock()
        self._stopped = threading.Event()
        self.loop = loop.acquire()
        try:
            single = self.settings["PZC_SINGLE_PORT"] if single_port is None else single_port
            self._open(rep_endpoint, "" if single else pub_endpoint or endpoints.beside(rep_endpoint))
        except BaseException:
            if self in _running:  # it has more than that
                self._end()
            else:
                loop.release(self.loop)
            raise

    def _open(self, rep_endpoint: str, pub_endpoint: str) -> None:
        owner, protocol, counters = self.loop, self.protocol, self.counters
        answering = self._answering = Answering(
            owner, rep_endpoint, protocol, self.agent_id, self.name, counters,
            concurrency=self._concurrency, affine=self._affine, reads_while_locked=self._reads_while_locked,
            role_needed=self._role_needed, on_request=self.on_request, on_lock_change=self._on_lock_change,
        )  # fmt: skip
        answering.execution.always_asks = type(self).role_needed is not type(self)._usual_role_needed
        try:
            self._outlets = Outlets(owner, protocol, counters)
            self._publisher = Publisher(
                owner, pub_endpoint, protocol, self.agent_id, counters, self._outlets, self._on_filters
            )
        except BaseException:
            answering.abandon()
            raise
        self._publisher.voices.begin(self.rep_endpoint)
        self._outlets.routes.usual = self._say_usual if self.settings.topics else None
        _running.add(self)
        self._control = answering.attach_control(self._publisher, self.describe, self._stop_from_loop)
        self._control.words["statistics"] = lambda request, _: answering.replies.reply(
            request, self.statistics()
        )
        self._telling = Telling(owner, self.publish, self.statistics)
        self._linking = Linking(
            self._outlets, owner, protocol, self.agent_id, self.name, answering.replies,
            self._publisher.on_links, self._publisher.keeping,
        )  # fmt: skip
        self._control.words.update(self._linking.words)
        self._posting = self._outlets.mail = Posting(
            self._outlets, owner, protocol, self.agent_id, answering.replies, counters,
            self._publisher.on_links,
        )  # fmt: skip
        self._outlets.routes.mail_readers = self._posting.readers
        self._control.words.update(self._posting.words)
        self._requester = Requester(owner.context, protocol, self.agent_id, self.rep_endpoint, counters)
        self._deferred = Deferred(owner, self._requester, counters)
        self.keeper = Keeper(owner, self.exchange_later)
        self._subscribing = Subscribing(owner, protocol, counters, self._requester, self.settings)
        self._announcing = Announcing(
            owner, self._naming, self._outlets.numbers, self._outlets.routes.about, answering.replies
        )
        self._control.words["topic"] = self._announcing.on_topic
        if not protocol.signed:
            endpoints.warn_unsigned(self.rep_endpoint)
        self._prepare()
        owner.run(answering.start)
        owner.run(self._publisher.start)
        local.offer(self.agent_id, self._linking, protocol.fingerprint)
        self._announce()

    def _announce(self) -> None:
        """Tell others of this agent, if it has a name."""
        self._announcing.begin(self._entry())

    def _entry(self) -> Entry:
        """What others are told of this agent, with endpoints as they are bound."""
        return Entry(
            "agent", self.name, agent=self.agent_id, epoch=self.epoch, started=time.time_ns() // 1_000_000,
            addresses=(self.rep_endpoint,), pub_addresses=tuple(filter(None, [self.pub_endpoint])),
            dialects=tuple(self.protocol.codec.accept),
        )  # fmt: skip

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
        """Where it publishes, with the real port; empty with a single port."""
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

    _usual_role_needed = role_needed

    def _role_needed(self, content: Any) -> Role:
        """As `role_needed`, of all that a request holds."""
        return self.role_needed(content)

    def statistics(self) -> dict[str, Any]:
        """What this agent saw: counts by name, topics, subscriptions."""
        return {
            "counts": self.counters.as_dict(),
            "calls": self._answering.statistics(),
            "topics": self._publisher.statistics(),
            "links": self._outlets.statistics(),
            "mailboxes": self._posting.statistics(),
            "subscriptions": self._subscribing.statistics(),
            "discovery": self._naming.statistics(),
        }

    def publish_statistics(self, every: float = 1.0, topic: str = STATISTICS) -> None:
        """Publish `statistics` from now on, for whoever subscribes to that; again: at another pace.

        Args:
            every: seconds, 0.01 to 86400.
            topic: default ``statistics``.

        Raises:
            ConfigError: for a pace that cannot be kept.
        """
        self.check_usable()
        self._telling.begin(every, topic)

    def describe(self) -> dict[str, Any]:
        """What the handshake tells every peer."""
        codec = self.protocol.codec
        return {
            "version": VERSION, "agent_id": self.agent_id, "epoch": self.epoch, "name": self.name,
            "kind": type(self).__name__,
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
        except Exception:  # whoever subscribes is not told: it can do nothing about it
            logger.exception("%r could not act upon a change of its subscribers", self)
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
            partial(run, self._telling.close),
            self._announcing.close,
            self._let_go,
            self._close_links,
            self._close_subscriptions,
            self.keeper.close,
            self._requester.lines.close,
            self._naming.close,
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
