"""Policies: what happens when a reader is slower than the writer, as numbers and a bounded inbox.

::

    policy         inbox full                 counted as dropped
    drop(n)        the new one is refused     the new one
    latest(k)      the oldest is removed      the oldest, and of bytes as many as it takes
    block          never: the publisher waits -

    mailbox        never: the publisher keeps -

An inbox takes every message of a ``block`` or ``mailbox``: its window at the publisher, or the room that its
reader tells, bounds what is pending.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..protocol.errors import ConfigError, PolicyRefused

T = TypeVar("T")

_NOTHING: deque[Any] = deque(maxlen=0)  # what nothing can be put into: most inboxes of many are empty

NAMES = ("drop", "latest", "block", "mailbox")
WHEN_FULL = ("drop_oldest", "block")
"""What a full mailbox does, the weakest promise to the reader first."""
UNREAD = 64 << 20
"""Bytes that wait for a reader without a window; one content of any size always may."""
KEEP = 300.0
"""Seconds that a mailbox is kept after its reader was last heard of."""
MAX_NAME = 200
"""Most characters of the name of a mailbox."""


def _is_name(name: object) -> bool:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
        return False
    return not any("\ud800" <= each <= "\udfff" for each in name)


@dataclass(frozen=True)
class Policy:
    """Name and bound of a policy; made by `drop`, `latest`, `block` and `mailbox`.

    Attributes:
        name: ``drop``, ``latest``, ``block`` or ``mailbox``.
        bound: most messages held for the reader.
        timeout: seconds that a blocked publisher waits; None for the policies that never block.
        max_bytes: most bytes held for the reader; None for no bound in bytes.
        when_full: ``drop_oldest`` or ``block``, of a mailbox.
        durable: name of a mailbox that outlives the process that reads it; None for the process's own.
        keep: seconds that a mailbox is kept after its reader was last heard of.

    Raises:
        ConfigError: for a name or a number that no policy has.
    """

    name: str
    bound: int
    timeout: float | None = None
    max_bytes: int | None = None
    when_full: str | None = None
    durable: str | None = None
    keep: float | None = None

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ConfigError(f"policy {self.name!r} is not known, expected one of {', '.join(NAMES)}")
        self._check_kinds()
        if self.bound < 1:
            raise ConfigError(f"{self.name} needs a bound of at least 1 message, not {self.bound}")
        if self.timeout is not None and not self.timeout >= 0:
            raise ConfigError(f"{self.name} needs a timeout of 0 seconds or more, not {self.timeout}")
        if self.max_bytes is not None and self.max_bytes < 1:
            raise ConfigError(f"{self.name} needs a bound of at least 1 byte, not {self.max_bytes}")
        if self.name == "block" and self.timeout is None:
            raise ConfigError("block needs a timeout in seconds; block(timeout, slots) has one")
        if self.name == "mailbox":
            self._check_mailbox()
        elif (self.when_full, self.durable, self.keep) != (None, None, None):
            raise ConfigError(f"when_full, a name and keep belong to a mailbox, not to {self.name}")

    def _check_kinds(self) -> None:
        """Whether its numbers can be told to a publisher."""
        for what, number in (("messages", self.bound), ("bytes", self.max_bytes or 0)):
            if type(number) is not int:
                raise ConfigError(f"{self.name} needs a whole number of {what}, not {number!r:.60}")
        for seconds in (self.timeout, self.keep):
            number = isinstance(seconds, int | float | None)  # pyright: ignore[reportUnnecessaryIsInstance]
            if not number or isinstance(seconds, bool):
                raise ConfigError(f"{self.name} needs a number of seconds, not {seconds!r:.60}")

    def _check_mailbox(self) -> None:
        if self.when_full not in (None, *WHEN_FULL):
            raise ConfigError(f"when_full is {self.when_full!r}, expected {' or '.join(WHEN_FULL)}")
        if self.keep is not None and not 0 < self.keep < float("inf"):
            raise ConfigError(f"a mailbox is kept for more than 0 seconds and not for ever, not {self.keep}")
        if self.durable is not None and not _is_name(self.durable):
            raise ConfigError(
                f"the name of a mailbox has 1 to {MAX_NAME} characters of UTF-8, not {self.durable!r:.60}"
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


def block(timeout: float = 30.0, slots: int = 32) -> Policy:
    """Let the publisher wait while ``slots`` messages are not done with.

    Args:
        timeout: seconds that one publication waits; then it raises `CallTimeout`, and nothing is published.
        slots: most messages of the topic that this process is not done with.
    """
    return Policy("block", slots, timeout=timeout)


def mailbox(
    max_messages: int = 10_000,
    max_bytes: int = 512 << 20,
    when_full: str = "drop_oldest",
    name: str | None = None,
    keep: float = KEEP,
) -> Policy:
    """Let the publisher keep messages until they are acknowledged.

    Args:
        max_messages: most messages kept unacknowledged, of each subscription and key.
        max_bytes: most bytes kept, of all together; an empty mailbox takes one message of any size.
        when_full: ``drop_oldest``: the oldest go, counted and reported; ``block``: publications wait.
        name: of a mailbox that another process may read on after this one; None for this process's own.
        keep: seconds that the publisher keeps it after the process was last heard of.

    Raises:
        ConfigError: for a value that no mailbox can have.
    """
    return Policy("mailbox", max_messages, max_bytes=max_bytes, when_full=when_full, durable=name, keep=keep)


LARGEST = mailbox(max_messages=1_000_000, max_bytes=4 << 30, keep=7 * 86_400.0)
"""The largest bounds that a publisher takes."""


def check_size(policy: Policy) -> None:
    """Judge the bounds of a mailbox.

    Raises:
        PolicyRefused: for larger ones than those of `LARGEST`.
    """
    excess = [
        f"{name} {asked}, at most {most}"
        for name, asked, most in (
            ("max_messages", policy.bound, LARGEST.bound),
            ("max_bytes", policy.max_bytes or 0, LARGEST.max_bytes or 0),
            ("keep", policy.keep or 0.0, LARGEST.keep or 0.0),
        )
        if asked > most
    ]
    if excess:
        raise PolicyRefused(f"this publisher keeps no mailbox so large: {'; '.join(excess)}")


class Inbox(Generic[T]):
    """Queue of one subscription: received + dropped + pending = offered, always.

    Args:
        policy: what is dropped when it is full, if anything.

    Attributes:
        policy: as given.
        most_bytes: it is full with these as well, by the ``size`` of its items; 0 for no such bound.
        items: the pending ones; only to be looked at.
        received: items that the reader took.
        dropped: items that it never will.
        refused: dropped ones that the owner has to be done with and remove; None as long as there are none.
        omitted: as `refused`, those that the policy left out; the owner tells which and removes them.
    """

    __slots__ = (
        "_bytes", "_most", "_thrifty", "dropped", "items", "most_bytes", "omitted", "policy", "received",
        "refused",
    )  # fmt: skip

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.received = 0
        self.dropped = 0
        self.refused: list[T] | None = None
        self.omitted: list[T] | None = None
        self._most = policy.bound if policy.lossy else sys.maxsize
        self._thrifty = policy.name == "mailbox"  # of which one process may have 100 000
        self.items: deque[T] = _NOTHING
        self.most_bytes = self._bytes = 0

    def __len__(self) -> int:
        return len(self.items)

    def offer(self, item: T) -> bool:
        """Take a new item by the policy; True when it is now pending."""
        size = _weight((item,)) if self.most_bytes else 0
        while len(self.items) >= self._most or (self.items and self._bytes + size > self.most_bytes > 0):
            dropped = item if self.policy.name == "drop" else self._oldest()
            self._drop(dropped)
            self.omitted = self.omitted or []
            self.omitted.append(dropped)
            if dropped is item:
                return False
        if self.items is _NOTHING:
            self.items = deque()
        self.items.append(item)
        self._bytes += size
        return True

    def offer_all(self, items: Sequence[T], size: int | None = None) -> None:
        """Take several, as `offer` each; ``size``: their bytes, when that is known."""
        if self.most_bytes and size is None:
            size = _weight(items)
        weight = size if self.most_bytes and size else 0
        if len(items) + len(self.items) <= self._most and self._bytes + weight <= self.most_bytes:
            self._bytes += weight
            if self.items is _NOTHING:
                self.items = deque(items)
            else:
                self.items.extend(items)
            return
        for item in items:
            self.offer(item)

    def take(self) -> T:
        """Hand the oldest pending item to the reader.

        Raises:
            IndexError: when nothing is pending.
        """
        item: Any = self.items.popleft()
        if self.most_bytes:
            self._bytes -= item.size
        if self._thrifty and not self.items:
            self.items = _NOTHING
        self.received += 1
        return item

    def _oldest(self) -> T:
        """Take it out for nobody."""
        oldest = self.take()
        self.received -= 1
        return oldest

    def refuse(self, items: Sequence[T]) -> None:
        """The owner has to be done with these, whether or not they are counted."""
        if self.refused is None:
            self.refused = []
        self.refused += items

    def lose(self, count: int) -> None:
        """Count notifications that were lost on the way here."""
        self.dropped += count

    def spoil(self) -> None:
        """What was taken last cannot be read: it was not received, and is to be counted as lost."""
        self.received -= 1

    def clear(self) -> None:
        """Drop and count everything pending."""
        while self.items:
            self._drop(self.items.popleft())
        self.items, self._bytes = _NOTHING, 0

    def forget(self, unwanted: Callable[[T], bool]) -> None:
        """Drop and count those pending items that nobody wants any more."""
        items, self.items = self.items, deque()
        for item in items:
            (self._drop if unwanted(item) else self.items.append)(item)
        self.weigh(self.most_bytes)

    def weigh(self, most_bytes: int) -> None:
        """Have it full with so many bytes as well, of what comes from now on."""
        self.most_bytes, self._bytes = most_bytes, _weight(self.items) if most_bytes else 0

    def _drop(self, item: T) -> None:
        self.dropped += 1
        self.refuse((item,))


def _weight(items: Iterable[Any]) -> int:
    return sum([item.size for item in items])
