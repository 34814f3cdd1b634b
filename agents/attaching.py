"""Attach: fetch the outcome of a call whose caller crashed or lost its link."""

from __future__ import annotations

import time
import weakref
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import Any

from ..protocol.errors import LocalProtocolError, Refused
from ..protocol.paths import Handle, from_wire
from ..transport.helpers import aside
from ..transport.peer import Peer
from ..transport.wire import Protocol
from .client.answers import BatchOutcome
from .client.described import Entry
from .client.pending import PendingCall
from .client.reference import RemoteReference
from .client.served import ServedObject
from .client.streams import RemoteStream
from .client.terms import checked_timeout
from .proxy import lease, refer_later


class _Attachment(ServedObject):
    """What holds the process's agent for one call id."""

    def reference(self, about: Entry) -> RemoteReference:
        """A reference that connects at its first use, for what can be reached by a path.

        Raises:
            Refused: for what is kept for whoever made the call.
        """
        path = from_wire(about.get("path"))
        if not path or isinstance(path[0], Handle):
            raise Refused("the call gave something without a path, which is kept for the process that called")
        made = refer_later(self.endpoint, path)
        made._proxy_asks_with(self.agent.protocol)  # pyright: ignore[reportPrivateUsage]
        return made

    def value_of(self, action: str, value: Any, peer: Peer, timeout: float | None = None) -> Any:
        """As `ServedObject.value_of`; a batch gives its results or raises."""
        value = super().value_of(action, value, peer, timeout)
        if isinstance(value, BatchOutcome):
            if value.error is not None:
                raise value.error
            return value.results
        return value


def attach(call_id: str, *, timeout: float | None = None, protocol: Protocol | None = None) -> PendingCall:
    """The outcome of a call, by its id: ``PendingCall.call_id`` or ``CallTimeout.call_id``.

    Any process with the same key can ask; a server keeps an outcome for 60 s.

    Args:
        call_id: message id and endpoint, ``urn:uuid:...@tcp://...``.
        timeout: how long to ask, in seconds, until CallTimeout; default ``PZC_TIMEOUT``, else 30.
        protocol: as `Proxy`.

    Returns:
        Future that gives or raises what the call gave or raised; for what stayed at the server a reference
        that connects at its first use, Refused for what has no path; Refused when nothing is kept for this
        id and key.

    Raises:
        LocalProtocolError: when it is no call id.
        CallTimeout, PeerLost, SignatureError: when the server cannot be reached.
        Refused: when an original Pizco is there.
    """
    urn, _, endpoint = str(call_id).partition("@")
    if not urn.startswith("urn:uuid:") or "://" not in endpoint:
        raise LocalProtocolError(f"{call_id!r:.200} is no call id: expected urn:uuid:...@tcp://host:port")
    checked_timeout(timeout)
    agent, release = lease(protocol)
    held = ExitStack()
    held.callback(release)
    try:
        seconds: float = agent.settings["PZC_TIMEOUT"] if timeout is None else timeout
        deadline = time.monotonic() + seconds
        peer = agent.peer(endpoint, seconds)
        served = _Attachment(agent, peer, seconds)
        held.callback(served.leave)
        served.need("keep the outcome of a call")
        future = served.attach(peer, urn, deadline)
    except BaseException:
        held.close()
        raise
    finalizer = weakref.finalize(served, aside, agent.loop, held.close)
    finalizer.atexit = False
    future.add_done_callback(partial(_on_done, finalizer))
    return future


def _on_done(finalizer: weakref.finalize[Any, Any], future: Future[Any]) -> None:
    failed = future.cancelled() or future.exception() is not None
    if failed or not isinstance(future.result(), RemoteStream):  # which needs the agent for its items
        finalizer()
