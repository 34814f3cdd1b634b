"""Agents: the layer that users import. Servers, proxies and subscriptions are built on an agent.

The layers above import names from here and from nowhere below; ``__all__`` lists them. The insides are

::

    agent.py serving.py proxy.py aio.py    what user code makes
    client/                                references, requests, locks, streams
    server/                                dispatcher, lanes, exposed objects
    notifications/                         publisher, links, mailboxes, subscriptions
    naming/                                names, registry, topic graph

Start with ``agent.py``. A name is imported from its module when it is first used, so that an import of the
package takes little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent
    from .attaching import attach
    from .client.batches import batch
    from .client.described import About
    from .client.locking import Lock, lock
    from .client.member import Member
    from .client.peers import OFFSET_WORTH_TELLING_MS
    from .client.pending import PendingCall
    from .client.reference import RemoteReference
    from .client.remote import RemoteObject
    from .client.running import Running, cancel, cancel_of_key, running
    from .client.streams import RemoteStream
    from .client.terms import remote_of
    from .current import Caller, caller, cancelled
    from .naming.discovering import MAX_SKEW
    from .naming.multicast import HEARTBEATS, HEARTBEATS_WAIT, patience
    from .naming.participants import site_of
    from .naming.unknown import ahead_or_behind, obstacles
    from .notifications.columns import Burst, Missed
    from .notifications.filters import ANY
    from .notifications.merged import Merged
    from .notifications.subscription import Notification, Subscription
    from .proxy import Proxy, close, lease, path, refresh, stubs
    from .registry import Registry
    from .server.audit_file import CALLS, AuditFile
    from .server.audit_line import MASK, is_secret, masked_arguments, masked_keywords
    from .server.declared import check_poll
    from .server.marks import concurrent, idempotent, on_cancel, reading, urgent
    from .serving import Server
    from .shown import html_page, html_table
    from .signals import Signal, SlotList
    from .stub import declared, signature_of
    from .watching import Watch, acquire, discover, hear, release, watch

__all__ = [
    "ANY",
    "CALLS",
    "HEARTBEATS",
    "HEARTBEATS_WAIT",
    "MASK",
    "MAX_SKEW",
    "OFFSET_WORTH_TELLING_MS",
    "About",
    "Agent",
    "AuditFile",
    "Burst",
    "Caller",
    "Lock",
    "Member",
    "Merged",
    "Missed",
    "Notification",
    "PendingCall",
    "Proxy",
    "Registry",
    "RemoteObject",
    "RemoteReference",
    "RemoteStream",
    "Running",
    "Server",
    "Signal",
    "SlotList",
    "Subscription",
    "Watch",
    "acquire",
    "ahead_or_behind",
    "attach",
    "batch",
    "caller",
    "cancel",
    "cancel_of_key",
    "cancelled",
    "check_poll",
    "close",
    "concurrent",
    "declared",
    "discover",
    "hear",
    "html_page",
    "html_table",
    "idempotent",
    "is_secret",
    "lease",
    "lock",
    "masked_arguments",
    "masked_keywords",
    "obstacles",
    "on_cancel",
    "path",
    "patience",
    "reading",
    "refresh",
    "release",
    "remote_of",
    "running",
    "signature_of",
    "site_of",
    "stubs",
    "urgent",
    "watch",
]  # fmt: skip

_HOMES = {
    "agent": "Agent",
    "attaching": "attach",
    "client.batches": "batch",
    "client.described": "About",
    "client.locking": "Lock lock",
    "client.member": "Member",
    "client.peers": "OFFSET_WORTH_TELLING_MS",
    "client.pending": "PendingCall",
    "client.reference": "RemoteReference",
    "client.remote": "RemoteObject",
    "client.running": "Running cancel cancel_of_key running",
    "client.streams": "RemoteStream",
    "client.terms": "remote_of",
    "current": "Caller caller cancelled",
    "naming.discovering": "MAX_SKEW",
    "naming.multicast": "HEARTBEATS HEARTBEATS_WAIT patience",
    "naming.participants": "site_of",
    "naming.unknown": "ahead_or_behind obstacles",
    "notifications.columns": "Burst Missed",
    "notifications.filters": "ANY",
    "notifications.merged": "Merged",
    "notifications.subscription": "Notification Subscription",
    "proxy": "Proxy close lease path refresh stubs",
    "registry": "Registry",
    "server.audit_line": "MASK is_secret masked_arguments masked_keywords",
    "server.audit_file": "CALLS AuditFile",
    "server.declared": "check_poll",
    "server.marks": "concurrent idempotent on_cancel reading urgent",
    "serving": "Server",
    "shown": "html_page html_table",
    "signals": "Signal SlotList",
    "stub": "declared signature_of",
    "watching": "Watch acquire discover hear release watch",
}
"""Modules, and the names that each of them gives."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    return found
