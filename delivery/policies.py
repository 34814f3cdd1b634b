"""Policies: what happens when a reader is slower than the writer, as numbers and a bounded inbox.

::

    policy         inbox full                 counted as dropped
    drop(n)        the new one is refused     the new one
    latest(k)      the oldest is removed      the oldest

``block`` and ``mailbox`` need a publisher that waits or keeps: they are refused where only the
lossy broadcast plane is offered.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..protocol.errors import ConfigError, PolicyRefused

T = TypeVar("T")


@dataclass(frozen=True)
class Policy:
    """Name and bound of a policy; made by `drop`, `latest`, `block` and `mailbox`.

    Attributes:
        name: ``drop``, ``latest``, ``block`` or ``mailbox``.
        bound: most messages held for the reader.
        timeout: seconds that a blocked publisher waits; None for the policies that never block.
        max_bytes: most bytes held for the reader; None for no bound in bytes.
        when_full: ``drop_oldest`` or ``block``, of a mailbox.
    """

    name: str
    bound: int
    timeout: float | None = None
    max_bytes: int | None = None
    when_full: str | None = None

    def __post_init__(self) -> None:
        if self.bound < 1:
            raise ConfigError(f"{self.name} needs a bound of at least 1 message, not {self.bound}")
        if self.timeout is not None and not self.timeout >= 0:
            raise ConfigError(f"{self.name} needs a timeout of 0 seconds or more, not {self.timeout}")
        if self.max_bytes is not None and self.max_bytes < 1:
            raise ConfigError(f"{self.name} needs a bound of at least 1 byte, not {self.max_bytes}")


def drop(max_messages: int = 1000) -> Policy:
    """Keep the first ``max_messages`` unread ones, drop and count newer ones."""
    return Policy("drop", max_messages)


def latest(count: int = 1) -> Policy:
    """Keep the newest ``count`` unread ones, drop and count older ones."""
    return Policy("latest", count)


def block(timeout: float = 30.0, slots: int = 32) -> Policy:
    """Let the publisher wait up to ``timeout`` seconds for a free slot; loses nothing."""
    return Policy("block", slots, timeout=timeout)


def mailbox(max_messages: int = 10_000, max_bytes: int = 512 << 20, when_full: str = "drop_oldest") -> Policy:
    """Let the publisher keep messages until they are acknowledged."""
    if when_full not in ("drop_oldest", "block"):
        raise ConfigError(f"when_full is {when_full!r}, expected drop_oldest or block")
    return Policy("mailbox", max_messages, max_bytes=max_bytes, when_full=when_full)


class Inbox(Generic[T]):
    """Bounded queue of one subscription: received + dropped + pending = offered, always.

    Args:
        policy: ``drop`` or ``latest``.

    Raises:
        PolicyRefused: for any other policy.
    """

    def __init__(self, policy: Policy) -> None:
        if policy.name not in ("drop", "latest"):
            raise PolicyRefused(
                f"policy {policy.name} is not offered by broadcast notifications, which are lossy: "
                "use drop(n) or latest(k)"
            )
        self.policy = policy
        self.received = 0
        self.dropped = 0
        self._items: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def offer(self, item: T) -> bool:
        """Take a new item by the policy; True when it is now pending."""
        if len(self._items) >= self.policy.bound:
            self.dropped += 1
            if self.policy.name == "drop":
                return False
            self._items.popleft()
        self._items.append(item)
        return True

    def take(self) -> T:
        """Hand the oldest pending item to the reader.

        Raises:
            IndexError: when nothing is pending.
        """
        item = self._items.popleft()
        self.received += 1
        return item

    def lose(self, count: int) -> None:
        """Count notifications that were lost on the way here."""
        self.dropped += count

    def clear(self) -> None:
        """Drop and count everything pending."""
        self.dropped += len(self._items)
        self._items.clear()
