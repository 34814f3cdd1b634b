"""Ahead: how much of what it may lose one reader has, without being done with it."""

from __future__ import annotations

from typing import Any, NamedTuple

from .claims import Entry


class Most(NamedTuple):
    """Bounds of what is ready or under way for lossy claims; what comes then waits or is lost by policy.

    Attributes:
        messages: all of them.
        bytes: outside of blocks.
        leased: contents in blocks: one that the reader looks at, and one on its way, which it copies when it
            goes on looking at the first one.
        waiting: bytes that wait; beyond them the oldest is lost, of ``drop`` the newest.
    """

    messages: int = 10_000
    bytes: int = 64 << 20
    leased: int = 2
    waiting: int = 64 << 20


class Ahead:
    """Counts it for one reader.

    Args:
        most: its bounds.

    Attributes:
        waiting: bytes that wait.
    """

    __slots__ = ("_bytes", "_leased", "_messages", "_most", "waiting")

    def __init__(self, most: Most) -> None:
        self.waiting = 0
        self._most = most
        self._messages = self._bytes = self._leased = 0

    def has_room(self, leased: bool) -> bool:
        """Whether one more may go."""
        most = self._most
        if self._messages >= most.messages or self._bytes >= most.bytes:
            return False
        return not leased or self._leased < most.leased

    def has_place(self, size: int) -> bool:
        """Whether so many bytes more may wait."""
        return not self.waiting or self.waiting + size <= self._most.waiting

    def add(self, entry: Entry[Any]) -> None:
        """It goes."""
        self._messages += 1
        self._bytes += entry.ahead
        self._leased += entry.leased

    def remove(self, entry: Entry[Any]) -> None:
        """The reader is done with it."""
        self._messages -= 1
        self._bytes -= entry.ahead
        self._leased -= entry.leased
