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
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from ....delivery.policies import Policy
from ....protocol.errors import AgentClosed, PzcError
from ....protocol.paths import Path
from ...notifications.subscription import Subscription
from ..described import Entry
from ..remote import RemoteObject
from .threads import finished, start

_COMPLETION = 0.5
"""Seconds that a proxy which is not connected yet takes at most to say what members there are."""


class Link:
    """One connection; safe from any thread and event loop.

    Args:
        target: endpoint or name of the server.
        make: connects a `pzc.Proxy`.
        later: makes one that is not connected.

    Attributes:
        later: as given.
        proxy: the one that is awaited here, held until this is collected or closed; None before that.
    """

    def __init__(self, target: str, make: Callable[[], Any], later: Callable[[], object]) -> None:
        self.target = target
        self.later = later
        self.proxy: Any = None
        self._make = make
        self._lock = threading.Lock()
        self._meeting: Future[None] | None = None
        self._closed = False

    @property
    def remote(self) -> RemoteObject | None:
        """The remote object; None before it is connected."""
        return None if self.proxy is None else self.proxy._proxy_remote

    def members(self, path: Path) -> dict[str, Entry]:
        """What the server tells of the members of something, within half a second; else nothing."""
        found = start(partial(self._members, path))
        with suppress(PzcError, TimeoutError):
            return found.result(_COMPLETION)
        return {}

    def entry(self, path: Path) -> Entry:
        """What the table says that something stands in, likewise."""
        last = path[-1] if path else ()
        return self.members(path[:-1]).get(last, {}) if isinstance(last, str) else {}

    def _members(self, path: Path) -> dict[str, Entry]:
        self._meet()
        remote = self.remote
        return {} if remote is None else remote.about((*remote.root, *path)).members

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
        proxy = self._make()
        with self._lock:
            if not self._closed:
                self.proxy = proxy
                return
        proxy._proxy_stop_me()
        self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise AgentClosed(f"the proxy of {self.target} was closed")

    def subscribe(self, path: Path, policy: Policy | None) -> Subscription:
        """Notifications of a signal; returns once the server has confirmed. Connected only.

        Raises:
            TypeError: for a member that is no signal.
            CallTimeout, PeerLost, AgentClosed: as `Agent.subscribe`.
        """
        self._check_open()
        remote = self.remote
        assert remote is not None
        return remote.subscribe(path, policy)

    def close(self) -> None:
        """Close the proxy and every subscription, and refuse what comes. Again: no effect."""
        with self._lock:
            self._closed = True
        if self.proxy is not None:
            self.proxy._proxy_stop_me()
