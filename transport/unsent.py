"""Unsent: what a bound socket holds of answers that their readers have not taken.

libzmq does not tell how much waits for a connection. But it lets go of a part that it was given without a
copy once that is the kernel's, or its connection is over. So one part goes that way for about each
`WITHOUT_COPY` bytes to a connection: when libzmq has let go of it, all before it went as well.
"""

from __future__ import annotations

from collections import Counter, deque
from time import monotonic
from typing import Any, Final

import zmq

from ..protocol import limits
from ..protocol.frames import Buffer
from .parts import WITHOUT_COPY

LITTLE: Final = 1 << 12
"""Bytes of a broadcast up to which it is sent whatever waits; the mark in messages bounds these."""

_CONNECTIONS = 1024  # remembered before a look whether they are over
_LOOK = 0.01  # seconds between two looks what has gone, unless much has come


class Unsent:
    """By connections and the keys that asked over them; I/O thread only."""

    def __init__(self) -> None:
        self._small: dict[Buffer, int] = {}  # bytes since the last part without a copy
        self._parts: dict[Buffer, deque[tuple[Any, str, int]]] = {}  # how it stands, key, bytes
        self._of: Counter[str] = Counter()

    def has_room(self, peer: Buffer, key_id: str, size: int) -> bool:
        """Whether an answer of so many bytes may go; always where nothing before it is unsent."""
        if peer not in self._parts or self._fits(key_id, size):
            return True
        self._look()
        return peer not in self._parts or self._fits(key_id, size)

    def _fits(self, key_id: str, size: int) -> bool:
        return self._of[key_id] + size <= limits.current.unsent_per_key

    def part(self, peer: Buffer, key_id: str, content: Buffer) -> zmq.Frame | None:
        """The content as what is to be sent of it, which must not be kept; None where it may be copied."""
        size = self._small.pop(peer, 0) + len(content)
        if size < WITHOUT_COPY:
            if len(self._small) >= _CONNECTIONS:
                self._small.clear()
            self._small[peer] = size
            return None
        if len(self._parts) >= _CONNECTIONS:
            self._look()
        whole = content if len(content) >= WITHOUT_COPY else bytes(content)
        part = zmq.Frame(whole, copy=False, track=True)
        parts = self._parts.setdefault(peer, deque())
        self._settle(parts)
        parts.append((part.tracker, key_id, size))
        self._of[key_id] += size
        return part

    def _look(self) -> None:
        for peer, parts in list(self._parts.items()):
            self._settle(parts)
            if not parts:
                del self._parts[peer]
        self._of = +self._of

    def _settle(self, parts: deque[tuple[Any, str, int]]) -> None:
        while parts and parts[0][0].done:
            _, key_id, size = parts.popleft()
            self._of[key_id] -= size


class Backlog:
    """Of broadcasts, which are let go of when the slowest reader has them; whoever uses the socket only."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, int]] = []  # how it stands, bytes
        self._small = 0  # bytes since the last part without a copy
        self._bytes = self._gone_at = 0  # now, and when it was looked
        self._looked = 0.0

    @property
    def is_large(self) -> bool:
        """Whether half of the bound waits."""
        return self._exceeds(limits.current.unsent_broadcast // 2)

    def part(self, content: Buffer) -> zmq.Frame | None:
        """As `Unsent.part`.

        Raises:
            zmq.Again: there is no room for it.
        """
        size = len(content)
        if size > LITTLE and self._bytes and self._exceeds(limits.current.unsent_broadcast - size):
            raise zmq.Again
        self._small += size
        if self._small < WITHOUT_COPY:
            return None
        part = zmq.Frame(content if size >= WITHOUT_COPY else bytes(content), copy=False, track=True)
        self._parts.append((part.tracker, self._small))
        self._bytes, self._small = self._bytes + self._small, 0
        return part

    def _exceeds(self, most: int) -> bool:
        if self._bytes > most and (
            monotonic() - self._looked > _LOOK or (self._bytes - self._gone_at) * 8 > self._bytes
        ):
            self._parts = [each for each in self._parts if not each[0].done]
            self._bytes = self._gone_at = sum([size for _, size in self._parts])
            self._looked = monotonic()
        return self._bytes > most
