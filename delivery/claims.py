"""Claims: what a reader wants of a publisher, and the notifications that it gets for that.

An *interest* is a topic, some of its keys or all, and a policy with its own bound and its own losses. A
notification on a link is one *entry* with *claims*, the interests that get it: its content goes once, and
each claim is judged by its own policy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Struct

from ..protocol.errors import ConfigError, PolicyRefused
from .policies import Policy

M = TypeVar("M")

UNBOUNDED: Final = 1 << 62


class Interest:
    """Compared by identity; made by `SendQueue.want`.

    Attributes:
        topic: one topic.
        keys: of the messages that it gets; None for all.
        policy: ``drop``, ``latest`` or ``block``.
        window: most messages of a block that are not done with; a lossy policy has no window.
        held: messages that are ready or under way.
        delivered: messages that the reader is done with.
        missed: messages that it lost.
        told: those of them that the reader is told of.
        lost_at: number of the last one that it lost.
        waiting: what waits for it, oldest first.
    """

    __slots__ = (
        "bound", "delivered", "early", "held", "keys", "lossy", "lost_at", "marks", "missed", "newest",
        "policy", "told", "topic", "waiting", "window",
    )  # fmt: skip

    def __init__(self, topic: str, policy: Policy, window: int | None, keys: Collection[str] | None) -> None:
        self.topic = topic
        self.held = self.delivered = self.missed = self.told = self.lost_at = 0
        self.early = 0  # those lost that were older than all that waits
        self.waiting: deque[Entry[Any]] = deque()
        self.marks: deque[int] = deque()  # for each that waits: how many others were lost before it came
        self.adopt(policy, window, keys)

    def adopt(self, policy: Policy, window: int | None, keys: Collection[str] | None) -> None:
        """Have these from now on.

        Raises:
            PolicyRefused: for a mailbox; nothing was changed.
            ConfigError: for a window below 1; nothing was changed.
        """
        if policy.name == "mailbox":
            raise PolicyRefused("a mailbox is no policy of a send queue: use block(), drop(n) or latest(k)")
        if window is not None and window < 1:
            raise ConfigError(f"an interest needs a window of at least 1 message, not {window}")
        self.keys = keys
        self.policy = policy
        self.lossy = policy.lossy
        self.newest = policy.name == "latest"
        self.bound = policy.bound if policy.lossy else UNBOUNDED
        self.window = UNBOUNDED if policy.lossy else window or policy.bound

    @property
    def is_full(self) -> bool:
        """Whether whoever publishes has to wait for it."""
        return self.held >= self.window

    def lose(self, number: int) -> None:
        """It does not get the message of this number, which is newer than all that it got."""
        self.missed += 1
        self.lost_at = max(self.lost_at, number)

    def tell(self, total: int) -> tuple[Loss, ...]:
        """So many losses are told from now on; what is new of them."""
        lost = total - self.told
        if lost <= 0:
            return ()
        self.told = total
        return (Loss(self, self.lost_at, lost),)


class Loss(NamedTuple):
    """Messages that an interest lost since the last loss that was told.

    Attributes:
        interest: whose.
        last: number of the last one, of all that it lost so far.
        lost: how many.
    """

    interest: Interest
    last: int
    lost: int


class Entry(Struct, Generic[M], eq=False):
    """One notification on one link.

    Attributes:
        message: what goes.
        number: in its topic.
        size: bytes of its content.
        leased: the content lies in a block, which the link holds.
        claims: who gets it.
        ahead: bytes that it counts among those sent to lossy claims; -1 without any.
        position: of the link, from 1; 0 before it goes.
        lost: what is told with it, all of it older.
    """

    message: M
    number: int
    size: int
    leased: bool
    claims: tuple[Interest, ...]
    ahead: int = -1
    position: int = 0
    lost: tuple[Loss, ...] = ()
