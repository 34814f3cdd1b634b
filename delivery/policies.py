"""Policies: what happens when a reader is slower than the writer, as numbers and a bounded inbox.

::

    policy         inbox full                 counted as dropped
    drop(n)        the new one is refused     the new one
    latest(k)      the oldest is removed      the oldest
    block          never: the publisher waits -

An inbox takes every message of a ``block``: the window of its `Flow` at the publisher bounds what is
pending. ``mailbox`` needs a publisher that keeps, so an inbox refuses it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Generic, TypeVar

from ..protocol.errors import ConfigError, PolicyRefused

T = TypeVar("T")

NAMES = ("drop", "latest", "block", "mailbox")
ON_TIMEOUT = ("raise", "close", "drop")
"""What a blocked publisher does when its time is over, the strongest promise to the reader first."""


@dataclass(frozen=True)
class Policy:
    """Name and bound of a policy; made by `drop`, `latest`, `block` and `mailbox`.

    Attributes:
        name: ``drop``, ``latest``, ``block`` or ``mailbox``.
        bound: most messages held for the reader.
        timeout: seconds that a blocked publisher waits; None for the policies that never block.
        max_bytes: most bytes held for the reader; None for no bound in bytes.
        when_full: ``drop_oldest`` or ``block``, of a mailbox.
        on_timeout: ``raise``, ``drop`` or ``close``, of a block.

    Raises:
        ConfigError: for a name or a number that no policy has.
    """

    name: str
    bound: int
    timeout: float | None = None
    max_bytes: int | None = None
    when_full: str | None = None
    on_timeout: str | None = None

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ConfigError(f"policy {self.name!r} is not known, expected one of {', '.join(NAMES)}")
        if self.bound < 1:
            raise ConfigError(f"{self.name} needs a bound of at least 1 message, not {self.bound}")
        if self.timeout is not None and not self.timeout >= 0:
            raise ConfigError(f"{self.name} needs a timeout of 0 seconds or more, not {self.timeout}")
        if self.max_bytes is not None and self.max_bytes < 1:
            raise ConfigError(f"{self.name} needs a bound of at least 1 byte, not {self.max_bytes}")
        if self.name == "block" and self.timeout is None:
            raise ConfigError("block needs a timeout in seconds; block(timeout, slots) has one")
        if self.on_timeout not in (ON_TIMEOUT if self.name == "block" else (None,)):
            raise ConfigError(
                f"on_timeout of {self.name} is {self.on_timeout!r}: a block has {', '.join(ON_TIMEOUT)}, "
                "any other policy none"
            )

    @property
    def lossy(self) -> bool:
        """Whether messages are dropped, and counted, to spare the publisher a wait."""
        return self.name in ("drop", "latest")


def drop(max_messages: int = 1000) -> Policy:
    """Keep the first ``max_messages`` unread ones, drop and count newer ones."""
    return Policy("drop", max_messages)


def latest(count: int = 1) -> Policy:
    """Keep the newest ``count`` unread ones, drop and count older ones."""
    return Policy("latest", count)


def block(timeout: float = 30.0, slots: int = 32, on_timeout: str = "raise") -> Policy:
    """Let the publisher wait while ``slots`` messages are not done with.

    Args:
        timeout: seconds that one publication waits.
        slots: most messages of the topic that this process is not done with.
        on_timeout: ``raise``: the publication fails with `CallTimeout` and nothing is published;
            ``drop``: it is dropped for this reader, and counted; ``close``: the publisher closes the link.
    """
    return Policy("block", slots, timeout=timeout, on_timeout=on_timeout)


def mailbox(max_messages: int = 10_000, max_bytes: int = 512 << 20, when_full: str = "drop_oldest") -> Policy:
    """Let the publisher keep messages until they are acknowledged."""
    if when_full not in ("drop_oldest", "block"):
        raise ConfigError(f"when_full is {when_full!r}, expected drop_oldest or block")
    return Policy("mailbox", max_messages, max_bytes=max_bytes, when_full=when_full)


PROFILES: Mapping[str, Policy] = MappingProxyType(
    {"ezmsg": block(), "ecal": latest(), "gz": drop(), "ray": mailbox()}
)
"""Policies under the names of the systems whose defaults they are."""


def profile(name: str) -> Policy:
    """The policy of a profile: ``ezmsg``, ``ecal``, ``gz`` or ``ray``.

    Raises:
        ConfigError: for any other name.
    """
    try:
        return PROFILES[name]
    except KeyError:
        raise ConfigError(f"profile {name!r} is not known, expected one of {', '.join(PROFILES)}") from None


def strongest(policies: Iterable[Policy]) -> Policy:
    """The one policy that serves several readers of one process: a mailbox before a block before a lossy one.

    Of several mailboxes the largest bounds count, and ``block`` before ``drop_oldest``. Of several blocks
    the smallest bound, the shortest timeout and the strongest promise count: ``raise``, ``close``,
    ``drop``. Of several lossy ones the largest bound counts, as ``latest`` as soon as one of them wants the
    newest.

    Raises:
        ConfigError: for no policy at all.
    """
    given = list(policies)
    if not given:
        raise ConfigError("the strongest of no policies was asked for; pass one at least")
    if mailboxes := [policy for policy in given if policy.name == "mailbox"]:
        return _largest_mailbox(mailboxes)
    if blocks := [policy for policy in given if policy.name == "block"]:
        return _tightest_block(blocks)
    name = "latest" if any(policy.name == "latest" for policy in given) else "drop"
    return Policy(name, max(policy.bound for policy in given))


def _largest_mailbox(mailboxes: list[Policy]) -> Policy:
    sizes = [policy.max_bytes for policy in mailboxes]
    return replace(
        mailboxes[0],
        bound=max(policy.bound for policy in mailboxes),
        max_bytes=None if None in sizes else max(size for size in sizes if size is not None),
        when_full="block" if any(policy.when_full == "block" for policy in mailboxes) else "drop_oldest",
    )


def _tightest_block(blocks: list[Policy]) -> Policy:
    promises = {policy.on_timeout for policy in blocks}
    return block(
        timeout=min(policy.timeout or 0.0 for policy in blocks),
        slots=min(policy.bound for policy in blocks),
        on_timeout=next(promise for promise in ON_TIMEOUT if promise in promises),
    )


class Inbox(Generic[T]):
    """Queue of one subscription: received + dropped + pending = offered, always.

    Args:
        policy: ``drop``, ``latest`` or ``block``.
        on_drop: called with each item that is dropped.

    Raises:
        PolicyRefused: for a mailbox.
    """

    def __init__(self, policy: Policy, on_drop: Callable[[T], object] | None = None) -> None:
        if policy.name == "mailbox":
            raise PolicyRefused(
                "policy mailbox is not offered by notifications: use block(), which loses nothing while the "
                "reader lives, or drop(n) or latest(k)"
            )
        self.policy = policy
        self.received = 0
        self.dropped = 0
        self._on_drop = on_drop
        self._items: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def offer(self, item: T) -> bool:
        """Take a new item by the policy; True when it is now pending."""
        if len(self._items) >= self.policy.bound and self.policy.name != "block":
            dropped = item if self.policy.name == "drop" else self._items.popleft()
            self._drop(dropped)
            if dropped is item:
                return False
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

    def spoil(self) -> None:
        """What was taken last cannot be read: it was not received, and is to be counted as lost."""
        self.received -= 1

    def clear(self) -> None:
        """Drop and count everything pending."""
        while self._items:
            self._drop(self._items.popleft())

    def _drop(self, item: T) -> None:
        self.dropped += 1
        if self._on_drop is not None:
            self._on_drop(item)
