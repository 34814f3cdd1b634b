"""Unsent: what a bound socket holds of answers that their readers have not taken.

libzmq does not tell how much waits for a connection. But it lets go of a part that it was given without a
copy once that is the kernel's, or its connection is over. So one part goes that way for about each
`WITHOUT_COPY` bytes to a connection: when libzmq has let go of it, all before it went as well.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import zmq

from ..protocol import limits
from ..protocol.frames import Buffer
from .parts import WITHOUT_COPY

_CONNECTIONS = 1024  # remembered before a look whether they are over


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
