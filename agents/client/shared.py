"""Opening a proxy: what all that is reached through it hold on to."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from ...transport.wire import Protocol
from .agent import Lease
from .member import refer
from .remote import RemoteObject


class Anchor:
    """Keeps one remote object open: the proxy, its members, streams and unanswered calls refer to it."""

    __slots__ = ("__weakref__",)


def opened(
    lease: Lease,
    target: str,
    timeout: float | None = None,
    transport: str | None = None,
    protocol: Protocol | None = None,
) -> dict[str, Any]:
    """What a connected proxy has; further arguments and errors as `Proxy`."""
    remote = RemoteObject(lease, target, timeout, protocol, transport, refer)
    anchor = Anchor()
    remote.anchor = weakref.ref(anchor)
    # The finaliser may run in any thread, the I/O thread included, which cannot wait for itself.
    finalizer = weakref.finalize(anchor, _close_later, remote)
    finalizer.atexit = False
    return {
        "_proxy_remote": remote,
        "_proxy_anchor": anchor,
        "_proxy_finalizer": finalizer,
        "_proxy_path": remote.root,
    }


def _close_later(remote: RemoteObject) -> None:
    thread = threading.Thread(target=remote.close, name="pzc-close", daemon=True)
    # Started by the I/O thread: the collector may run this while its thread starts another one.
    remote.agent.loop.call(thread.start)
