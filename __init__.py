"""Remote instrument control: Python agents over ZeroMQ.

``Server(instrument).serve_forever()`` on one machine; ``Proxy("tcp://...")`` on another holds the
instrument as if it were local.
"""

from . import aio
from .agents.agent import Agent
from .agents.calling.attach import attach
from .agents.calling.attributes import RemoteAttribute
from .agents.calling.batches import batch
from .agents.calling.futures import CallFuture
from .agents.calling.locking import lock
from .agents.calling.proxy import Proxy, close
from .agents.calling.streams import RemoteStream
from .agents.naming.participants import discover
from .agents.notifying.notification import acknowledge
from .agents.notifying.signals import Signal
from .agents.notifying.subscription import Notification, Subscription
from .agents.serving.calls import cancelled
from .agents.serving.marks import idempotent
from .agents.serving.server import Server
from .agents.stubs.stubs import stubs
from .agents.wire import Protocol
from .delivery.policies import PROFILES, Policy, block, drop, latest, mailbox, profile
from .delivery.sequences import Gap
from .protocol.errors import (
    AgentClosed,
    BindError,
    CallCancelled,
    CallTimeout,
    ConfigError,
    CycleRefused,
    DecodeError,
    FrameError,
    InstantiateRefused,
    JournalError,
    LocalProtocolError,
    LockedBy,
    LockLost,
    MemberRefused,
    MissingRequirement,
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
    RowsMissing,
    SerializeError,
    SerializerRefused,
    SignatureError,
    StaleMessage,
    SubscriptionClosed,
    TypeMismatch,
    UnknownName,
    VersionError,
)
from .protocol.keyring import Key, Keyring, Role
from .protocol.unpickle import register_class
from .protocol.version import VERSION

__version__ = VERSION

__all__ = [
    "PROFILES",
    "Agent",
    "AgentClosed",
    "BindError",
    "CallCancelled",
    "CallFuture",
    "CallTimeout",
    "ConfigError",
    "CycleRefused",
    "DecodeError",
    "FrameError",
    "Gap",
    "InstantiateRefused",
    "JournalError",
    "Key",
    "Keyring",
    "LocalProtocolError",
    "LockLost",
    "LockedBy",
    "MemberRefused",
    "MissingRequirement",
    "Notification",
    "PeerLost",
    "Policy",
    "PolicyRefused",
    "Protocol",
    "ProtocolError",
    "Proxy",
    "PzcError",
    "ReceiveTimeout",
    "Refused",
    "RemoteAttribute",
    "RemoteError",
    "RemoteProtocolError",
    "RemoteStream",
    "ReplayedMessage",
    "Role",
    "RoleRefused",
    "RowsMissing",
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
    "acknowledge",
    "aio",
    "attach",
    "batch",
    "block",
    "cancelled",
    "close",
    "discover",
    "drop",
    "idempotent",
    "latest",
    "lock",
    "mailbox",
    "profile",
    "register_class",
    "stubs",
]  # fmt: skip
