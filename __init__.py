"""Remote instrument control: Python agents over ZeroMQ.

``Server(instrument).serve_forever()`` on one machine; ``Proxy("tcp://...")`` on another holds the
instrument as if it were local.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .protocol.errors import (
    AgentClosed,
    ArgumentsRefused,
    BindError,
    CallCancelled,
    CallTimeout,
    ConfigError,
    CycleRefused,
    DecodeError,
    FrameError,
    InstantiateRefused,
    JournalError,
    LocalLimit,
    LocalProtocolError,
    LockedBy,
    LockLost,
    MailboxTaken,
    MemberRefused,
    MissingRequirement,
    OperationRefused,
    PeerLost,
    PolicyRefused,
    ProtocolError,
    PzcError,
    ReceiveTimeout,
    Refused,
    RemoteError,
    RemoteProtocolError,
    ReplayedMessage,
    RoleRefused,
    SerializeError,
    SerializerRefused,
    SignatureError,
    StaleMessage,
    SubscriptionClosed,
    TypeMismatch,
    UnknownName,
    VersionError,
)
from .protocol.version import VERSION

if TYPE_CHECKING:
    from . import aio, qt
    from .agents import (
        Agent,
        Caller,
        Member,
        Notification,
        PendingCall,
        Proxy,
        RemoteReference,
        RemoteStream,
        Running,
        Server,
        Signal,
        Subscription,
        Watch,
        attach,
        batch,
        caller,
        cancel,
        cancelled,
        close,
        concurrent,
        discover,
        idempotent,
        lock,
        on_cancel,
        path,
        reading,
        refresh,
        running,
        stubs,
        urgent,
        watch,
    )
    from .agents.notification import acknowledge
    from .delivery.cursor import Gap
    from .delivery.policies import Policy, block, drop, latest, mailbox
    from .pipeline.snapshot import tables
    from .protocol.keyring import Key, Keyring, Role
    from .protocol.values import register_class
    from .transport.wire import Protocol

__version__ = VERSION

__all__ = [
    "Agent",
    "AgentClosed",
    "ArgumentsRefused",
    "BindError",
    "CallCancelled",
    "CallTimeout",
    "Caller",
    "ConfigError",
    "CycleRefused",
    "DecodeError",
    "FrameError",
    "Gap",
    "InstantiateRefused",
    "JournalError",
    "Key",
    "Keyring",
    "LocalLimit",
    "LocalProtocolError",
    "LockLost",
    "LockedBy",
    "MailboxTaken",
    "Member",
    "MemberRefused",
    "MissingRequirement",
    "Notification",
    "OperationRefused",
    "PeerLost",
    "PendingCall",
    "Policy",
    "PolicyRefused",
    "Protocol",
    "ProtocolError",
    "Proxy",
    "PzcError",
    "ReceiveTimeout",
    "Refused",
    "RemoteError",
    "RemoteProtocolError",
    "RemoteReference",
    "RemoteStream",
    "ReplayedMessage",
    "Role",
    "RoleRefused",
    "Running",
    "SerializeError",
    "SerializerRefused",
    "Server",
    "Signal",
    "SignatureError",
    "StaleMessage",
    "Subscription",
    "SubscriptionClosed",
    "TypeMismatch",
    "UnknownName",
    "VersionError",
    "Watch",
    "acknowledge",
    "aio",
    "attach",
    "batch",
    "block",
    "caller",
    "cancel",
    "cancelled",
    "close",
    "concurrent",
    "discover",
    "drop",
    "idempotent",
    "latest",
    "lock",
    "mailbox",
    "on_cancel",
    "path",
    "qt",
    "reading",
    "refresh",
    "register_class",
    "running",
    "stubs",
    "tables",
    "urgent",
    "watch",
]  # fmt: skip

_HOMES = {
    "agents": (
        "Agent Caller Member Notification PendingCall Proxy RemoteReference RemoteStream Running "
        "Server Signal Subscription Watch attach batch caller cancel cancelled close concurrent "
        "discover idempotent lock on_cancel path reading refresh running stubs urgent watch"
    ),
    "delivery.policies": "Policy block drop latest mailbox",
    "delivery.cursor": "Gap",
    "pipeline.snapshot": "tables",
    "protocol.keyring": "Key Keyring Role",
    "agents.notification": "acknowledge",
    "protocol.values": "register_class",
    "transport.wire": "Protocol",
}
"""Where the names are that `__getattr__` imports when they are first used, so that an import takes little."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in ("aio", "qt"):
        return import_module(f".{name}", __name__)
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
