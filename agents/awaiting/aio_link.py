"""Link: the connection of one awaitable proxy, made at its first use and shared by all who await.

::

    state       event                    next
    apart       first await              meeting: in one thread, whoever else waits for it
    meeting     handshake done           connected
    meeting     handshake failed         apart; whoever waits gets the error
    any         close                    closed
"""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future
from typing import Any

from ...delivery.policies import Policy
from ...protocol.errors import AgentClosed
from ..calling.proxy import Proxy
from ..calling.remote import RemoteObject
from ..notifying.subscription import Subscription
from .awaiting import finished, start


class Link:
    """One connection; safe from any thread and event loop.

    Args:
        target: endpoint or name of the server.
        options: further arguments of `Proxy`.

    Attributes:
        proxy: what is awaited here, held until this is collected or closed; None before it is connected.
    """

    def __init__(self, target: str, options: dict[str, Any]) -> None:
        self.target = target
        self.proxy: Proxy | None = None
        self._options = options
        self._lock = threading.Lock()
        self._meeting: Future[None] | None = None
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()
        self._closed = False

    @property
    def remote(self) -> RemoteObject | None:
        """The remote object; None before it is connected."""
        return None if self.proxy is None else self.proxy._proxy_remote  # pyright: ignore[reportPrivateUsage]

    @property
    def table(self) -> dict[str, dict[str, Any]]:
        """What the server told of its members; empty before it is connected."""
        remote = self.remote
        return {} if remote is None else remote.table

    async def connect(self) -> RemoteObject:
        """The remote object, connected by the first who asks.

        Raises:
            CallTimeout, PeerLost, SignatureError, UnknownName: as `Proxy`.
            AgentClosed: after `close`.
        """
        remote = self.remote
        while remote is None:
            with self._lock:
                if self._meeting is None or self._meeting.done():
                    self._meeting = start(self._meet)
                meeting = self._meeting
            await finished(meeting)
            meeting.result()
            remote = self.remote
        return remote

    def _meet(self) -> None:
        self._check_open()
        if self.proxy is not None:
            return
        proxy = Proxy(self.target, **self._options)
        with self._lock:
            if not self._closed:
                self.proxy = proxy
                return
        proxy._proxy_stop_me()  # pyright: ignore[reportPrivateUsage]
        self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise AgentClosed(f"the proxy of {self.target} was closed")

    def subscribe(self, name: str, policy: Policy) -> Subscription:
        """Notifications of a signal; returns once the server has confirmed. Connected only.

        Raises:
            TypeError: for a member that is no signal.
            CallTimeout, PeerLost, AgentClosed: as `Agent.subscribe`.
        """
        self._check_open()
        remote = self.remote
        assert remote is not None
        kind = remote.member(name).get("kind", "signal")
        if kind not in ("signal", "remote"):  # an original Pizco does not tell what is a signal
            raise TypeError(f"{name} of {self.target} is a {kind}, no signal: await it")
        subscription = remote.agent.subscribe(remote.endpoint, name, policy=policy, timeout=remote.timeout)
        vars(subscription)["_pzc_owner"] = self  # the proxy stays open as long as its subscription
        with self._lock:
            if not self._closed:
                self._subscriptions.add(subscription)
                return subscription
        subscription.close()
        raise AgentClosed(f"the proxy of {self.target} was closed")

    def close(self) -> None:
        """Close the proxy and every subscription, and refuse what comes. Again: no effect."""
        with self._lock:
            self._closed = True
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.close()
        if self.proxy is not None:
            self.proxy._proxy_stop_me()  # pyright: ignore[reportPrivateUsage]
