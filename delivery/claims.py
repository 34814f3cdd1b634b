"""Claims: what a reader wants of a publisher, and the notifications that it gets for that.

An *interest* is a topic, some of its keys or all, and a policy with its own bound and its own losses. A
notification on a link is one *entry* with *claims*, the interests that get it: its content goes once, and
each claim is judged by its own policy. Those with a window have an entry of their own, so that a reader may
be done with it while a lossy one still has to look at the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct

from ..protocol.errors import ConfigError, PolicyRefused
from .interests import thin
from .policies import Policy

M = TypeVar("M")

UNBOUNDED: Final = 1 << 62

_FEW = 64
_NOTHING: deque[Any] = deque(maxlen=0)  # what nothing can be put into: for most interests nothing waits


class Claim:
    """An interest of any queue; compared by identity.

    Attributes:
        number: that its reader gave it.
        topic: one topic, or of a mailbox all.
        keys: of the messages that it gets; None for all.
        policy: what happens when its reader is slower.
        who: the agent whose subscription it is, as in its marks; empty when the reader does not say.
        type: that its messages must have; empty for any.
        bound: most messages that wait for it.
        delivered: messages that the reader is done with.
        missed: messages that it lost.
    """

    __slots__ = ("bound", "delivered", "keys", "missed", "number", "policy", "topic", "type", "who")

    def __init__(self, number: int, topic: str, policy: Policy, keys: Collection[str] | None) -> None:
        self.number = number
        self.topic = topic
        self.policy = policy
        self.keys = thin(keys)
        self.bound = policy.bound
        self.delivered = self.missed = 0
        self.who = self.type = ""


class Interest(Claim):
    """One whose messages are not kept, of the policy ``drop``, ``latest`` or ``block``; see `SendQueue.want`.

    Attributes:
        window: most messages of a block that are not done with; a lossy policy has no window.
        held: messages that are ready or under way.
        lost_at: the largest number that it lost.
        waiting: what waits for it, oldest first.

    Raises:
        PolicyRefused: for a mailbox.
        ConfigError: for a window below 1.
    """

    __slots__ = ("held", "lossy", "lost_at", "newest", "waiting", "window")
    waiting: deque[Entry[Any]] | list[Entry[Any]]

    def __init__(
        self, number: int, topic: str, policy: Policy, window: int | None, keys: Collection[str] | None
    ) -> None:
        if policy.name == "mailbox":
            raise PolicyRefused("a mailbox is no policy of a send queue: use block(), drop(n) or latest(k)")
        if window is not None and window < 1:
            raise ConfigError(f"an interest needs a window of at least 1 message, not {window}")
        super().__init__(number, topic, policy, keys)
        self.lossy = policy.lossy
        self.newest = policy.name == "latest"
        self.window = UNBOUNDED if policy.lossy else window or policy.bound
        self.held = self.lost_at = 0
        self.waiting = _NOTHING

    def wait(self, entry: Entry[Any]) -> None:
        """One more waits for it."""
        if self.waiting is _NOTHING:  # a deque has room for 64
            self.waiting = [entry] if self.bound < _FEW else deque((entry,))
        else:
            self.waiting.append(entry)

    def waits(self, entry: Entry[Any]) -> bool:
        """Whether an entry that waited for it does so still."""
        waiting = self.waiting  # the oldest leave it first; one from between leaves it for all
        return bool(waiting) and waiting[0].number <= entry.number

    def waits_not(self, index: int = 0) -> None:
        """One of those that wait for it does so no longer."""
        del self.waiting[index]
        if not self.waiting:
            self.waiting = _NOTHING

    @property
    def is_full(self) -> bool:
        """Whether whoever publishes has to wait for it."""
        return self.held >= self.window


def summary(interests: Collection[Interest]) -> dict[str, Any]:
    """Figures of several interests in one topic: the policy of one, before all of one that is waited for."""
    policy = min(interests, key=lambda each: each.lossy).policy
    return {
        "policy": policy.name, "bound": policy.bound, "delivered": sum(each.delivered for each in interests),
        "outstanding": sum(each.held for each in interests),
        "kept": sum(len(each.waiting) for each in interests),
        "dropped": sum(each.missed for each in interests),
    }  # fmt: skip


class Loss(NamedTuple):
    """All messages of a topic that an interest lost.

    Attributes:
        interest: whose.
        topic: of the messages.
        at: the largest number that it lost.
        total: how many it lost.
    """

    interest: Claim
    topic: str
    at: int
    total: int


class Sent(Struct, Generic[M], eq=False):
    """A notification on its way to one reader.

    Attributes:
        message: what goes.
        number: in its topic.
        size: bytes of its content.
        claims: who gets it.
        leased: the content lies in a block, which the link holds.
        position: of the link, from 1; 0 before it goes.
    """

    message: M
    number: int
    size: int
    claims: tuple[Any, ...]
    leased: bool = False
    position: int = 0


class Entry(Sent[M], Generic[M], eq=False):
    """One notification in a send queue; while it waits, some of its claims may do so no longer.

    Attributes:
        ahead: bytes that it counts among those sent to lossy claims; -1 without any.
        left: for how many claims it waits.
    """

    ahead: int = -1
    left: int = 0
