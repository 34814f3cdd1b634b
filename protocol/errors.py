"""The error tree. Every class is also the builtin that a Python user would catch.

``Local…`` means your call was wrong, ``Remote…`` that theirs was (the split follows h11).
"""

from __future__ import annotations

from datetime import UTC, datetime


class PzcError(Exception):
    """Base of every error that this package raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: one line, for the text says what is to be done."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(PzcError, ValueError):
    """A setting cannot be used; the text says where it stands and what was expected."""


class ProtocolError(PzcError, ValueError):
    """Bytes or arguments that break the wire format."""


class LocalProtocolError(ProtocolError):
    """This side tried to send something that the wire cannot express."""


class RemoteProtocolError(ProtocolError):
    """The other side sent something that the wire does not allow."""


class FrameError(RemoteProtocolError):
    """Wrong number, size or form of frames."""


class VersionError(RemoteProtocolError):
    """A dialect that this side does not accept."""


class SignatureError(RemoteProtocolError, PermissionError):
    """Missing, wrong or foreign signature; nothing of the message was decoded."""


class StaleMessage(RemoteProtocolError):
    """Message time outside the freshness window (default ±30 s)."""


class ReplayedMessage(RemoteProtocolError):
    """A message that this receiver has already accepted once."""


class SerializerRefused(RemoteProtocolError, PermissionError):
    """A serializer, or a class inside a pickle, that the receiver does not accept."""


class DecodeError(RemoteProtocolError):
    """Verified content that its serializer cannot decode."""


class SerializeError(PzcError, TypeError):
    """Content that the chosen serializer cannot express."""


class ArgumentsRefused(PzcError, TypeError):
    """Values, or their names, do not fit what a signal declares; nothing was emitted."""


class BindError(PzcError, OSError):
    """An endpoint cannot be bound; the text names the endpoint and the reason."""


class PeerLost(PzcError, ConnectionError):
    """The peer is gone, was restarted, or cannot be reached.

    Attributes:
        call_id: of the call that was lost, for `pzc.attach`; empty when none was sent.
        absent: True when it is known that no agent is there: connections are refused, say.
    """

    call_id = ""
    absent = False


class UnknownName(PzcError, LookupError):
    """No agent of that name is known."""


class AgentClosed(PzcError, RuntimeError):
    """The agent was stopped, or belongs to the parent of this forked process."""


class CallTimeout(PzcError, TimeoutError):
    """No reply came within the timeout; the call may or may not have run.

    Attributes:
        call_id: for `pzc.attach`; empty when the call was never sent.
    """

    call_id = ""


class LocalLimit(PzcError, RuntimeError):
    """A limit of this process was reached; nothing was sent, and the peer has nothing to do with it."""


class CallCancelled(PzcError, RuntimeError):
    """The call was cancelled before it started, or while it ran and saw it."""


class SubscriptionClosed(PzcError, RuntimeError):
    """The subscription has ended; no more notifications will come."""


class ReceiveTimeout(PzcError, TimeoutError):
    """No notification came within the timeout."""


class Refused(PzcError, PermissionError):
    """The peer understood the request and said no."""


class RoleRefused(Refused):
    """The role of the signing key does not allow the action."""


class LockedBy(Refused):
    """Somebody else holds the lock of the instrument.

    Attributes:
        owner: proven name of the holder's key and its agent, such as ``alice (agent 3f2a90c1)``.
        since: when the lock was taken, in Unix seconds.
        reason: what the holder said, possibly empty.
    """

    def __init__(self, owner: str, since: float = 0.0, reason: str = "") -> None:
        why = f" ({reason})" if reason else ""
        moment = f"{datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC"
        super().__init__(f"locked by {owner} since {moment}{why}; wait for it, or take over as admin")
        self.owner = owner
        self.since = since
        self.reason = reason

    def __reduce__(self) -> tuple[type[LockedBy], tuple[str, float, str]]:
        return type(self), (self.owner, self.since, self.reason)


class LockLost(Refused):
    """The lock that this call relied on expired, was taken over, or went with a restart."""


class MemberRefused(PzcError, AttributeError):
    """The member is private or not exposed by the server."""


class OperationRefused(MemberRefused, TypeError):
    """The object does not support the operation, such as a call, ``iter``, ``in`` or ``[]``."""


class InstantiateRefused(Refused):
    """The class is not on the list that the server was started with."""


class PolicyRefused(Refused):
    """The publisher does not offer the requested policy, or not to this key."""


class MailboxTaken(Refused):
    """Another process reads the mailbox now: it subscribed with the same name."""


class TypeMismatch(Refused, TypeError):
    """The publisher says another type of a topic's messages than was asked for; the text has both."""


class CycleRefused(PzcError, ValueError):
    """The connection of two topics would lead messages back to where they came from."""


class RemoteError(PzcError, RuntimeError):
    """A remote exception that cannot be rebuilt here.

    Attributes:
        type_name: qualified name of the remote exception class.
        text: its text.
        remote_traceback: the remote traceback as one string, possibly empty.
    """

    def __init__(self, type_name: str, text: str, remote_traceback: str = "") -> None:
        super().__init__(f"{type_name}: {text}")
        self.type_name = type_name
        self.text = text
        self.remote_traceback = remote_traceback

    def __reduce__(self) -> tuple[type[RemoteError], tuple[str, str, str]]:
        return type(self), (self.type_name, self.text, self.remote_traceback)


class JournalError(PzcError, OSError):
    """A journal cannot be written or read."""


class MissingRequirement(PzcError, ImportError):
    """An optional package or program is not installed; the text says how to get it."""
