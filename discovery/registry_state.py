"""State of a registry: what a registry knows of processes, and who of them has not been told yet. Pure.

Of each process::

    state      event                                    next
    unknown    whole(...)                               known: everybody is told its datagrams
    known      whole(...)                               known: everybody is told the new ones
    known      hear(...)                                known: lives on
    known      bye, or SILENCE seconds without hear     unknown: everybody is told that it is gone
    known      excuse(...)                              known: as if it had been heard later
    unknown    hear(...)                                unknown: it is asked for the whole

What a process says about itself comes in two views: one for processes of its own host, which may hold
loopback addresses, and one for all others. Nobody gets both. A newcomer gets the newest heartbeat of each
process before the rest, because the rest may have been sent long ago.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import takewhile

from ..protocol.errors import Refused
from ..protocol.message import Identity
from .directory import PROCESSES, SILENCE

_BYTES = 32 << 20
"""Bytes of all that processes with one key tell a registry."""

MAX_BYTES_OF_ONE = 4 << 20
"""Of the datagrams of one process."""

MAX_GONE = 10_000
"""Processes that are remembered as gone, so that whoever was not here then is told."""

MAX_NEWS = 256 << 10
"""Bytes of datagrams that are told at once; the rest follows with the next question, which waits for none."""


@dataclass(frozen=True)
class Views:
    """Datagrams of one process: for its own host, and for all others."""

    local: tuple[bytes, ...] = ()
    others: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of both."""
        return sum(map(len, self.local)) + sum(map(len, self.others))

    def of(self, local: bool) -> tuple[bytes, ...]:
        """One of the two."""
        return self.local if local else self.others


@dataclass
class _Known:
    owner: Identity
    host: str
    heard: float
    number: int
    beats: Views
    said: Views


@dataclass(frozen=True)
class News:
    """What somebody has not been told yet.

    Attributes:
        cursor: to be given at the next question; more is to be told at once when it is not the ledger's.
        datagrams: of processes that are new or have changed.
        gone: processes that are not there any more.
    """

    cursor: int
    datagrams: list[bytes] = field(default_factory=list[bytes])
    gone: list[bytes] = field(default_factory=list[bytes])

    def __bool__(self) -> bool:
        return bool(self.datagrams or self.gone)


class RegistryState:
    """See the table in the module's docstring."""

    def __init__(self) -> None:
        self._processes, self._bytes = Counter[str](), Counter[str]()  # by key
        self._known: dict[bytes, _Known] = {}
        self._gone: dict[bytes, int] = {}  # and after which change
        self.cursor = 0

    def __len__(self) -> int:
        """The number of known processes."""
        return len(self._known)

    @property
    def size(self) -> int:
        """Bytes of all datagrams."""
        return self._bytes.total()

    def hear(self, process: bytes, owner: Identity, beats: Views, now: float) -> bool:
        """A sign of life; False when the process is unknown and is to tell its whole.

        Args:
            process: its id.
            owner: who speaks for it.
            beats: its newest heartbeats.
            now: monotonic seconds.

        Raises:
            Refused: when another owner speaks for it.
        """
        known = self._known.get(process)
        if known is None:
            return False
        self._check_owner(process, known, owner)
        known.heard, known.beats = now, beats
        return True

    def whole(
        self, process: bytes, owner: Identity, host: str, beats: Views, said: Views, now: float
    ) -> None:
        """All that a process says, instead of what it said before.

        Args:
            process: as `hear`.
            owner: as `hear`.
            host: equal for processes that reach each other by loopback.
            beats: as `hear`.
            said: the other datagrams.
            now: as `hear`.

        Raises:
            Refused: when another owner speaks for it, or it is too much, for one process or for its key.
        """
        known, key_id = self._known.get(process), owner.key_id
        if known is not None:
            self._check_owner(process, known, owner)
        new, more = known is None, said.size - (0 if known is None else known.said.size)
        if said.size > MAX_BYTES_OF_ONE:
            raise Refused(f"a process tells a registry at most {MAX_BYTES_OF_ONE} bytes, not {said.size}")
        if self._processes[key_id] + new > PROCESSES or self._bytes[key_id] + more > _BYTES:
            raise Refused(
                f"no room: at most {PROCESSES} processes with one key tell at most {_BYTES} bytes; "
                "end some, or use several registries, by partition"
            )
        self._processes[key_id] += new
        self._bytes[key_id] += more
        self.cursor += 1
        self._gone.pop(process, None)
        # At the end of the dictionary, so that its order is that of the numbers.
        self._known.pop(process, None)
        self._known[process] = _Known(owner, host, now, self.cursor, beats, said)

    def _check_owner(self, process: bytes, known: _Known, owner: Identity) -> None:
        if known.owner != owner:
            raise Refused(f"process {process.hex()[:8]} is spoken for by another agent")

    def bye(self, process: bytes, owner: Identity) -> None:
        """The process says that it ends; nothing happens when another owner says so."""
        known = self._known.get(process)
        if known is not None and known.owner == owner:
            self._forget(process)

    def excuse(self, seconds: float, now: float) -> None:
        """The registry itself stood still for so long, until now: nobody was silent then."""
        for known in self._known.values() if seconds else ():
            known.heard = min(known.heard + seconds, now)

    def tick(self, now: float) -> list[bytes]:
        """Forget who is silent; returns them."""
        silent = [process for process, known in self._known.items() if now - known.heard >= SILENCE]
        for process in silent:
            self._forget(process)
        return silent

    def _forget(self, process: bytes) -> None:
        known = self._known.pop(process)
        self._processes[known.owner.key_id] -= 1
        self._bytes[known.owner.key_id] -= known.said.size
        self.cursor += 1
        self._gone[process] = self.cursor
        if len(self._gone) > MAX_GONE:
            del self._gone[next(iter(self._gone))]

    @property
    def next_deadline(self) -> float | None:
        """When `tick` has something to do, if nobody is heard until then."""
        if not self._known:
            return None
        return min(known.heard for known in self._known.values()) + SILENCE

    def news(self, cursor: int, process: bytes, host: str, max_bytes: int = MAX_NEWS) -> News:
        """What is to be told to somebody; always at least one process, however large.

        Args:
            cursor: of the last news; 0 at first.
            process: who asks, and is not told of itself; empty for none.
            host: of who asks.
            max_bytes: of datagrams.
        """
        datagrams: list[bytes] = []
        size, reached = 0, self.cursor
        changed = list(takewhile(lambda each: self._known[each].number > cursor, reversed(self._known)))
        for other in reversed(changed):
            known = self._known[other]
            if other == process:
                continue
            local = bool(host) and known.host == host
            told = (*known.beats.of(local), *known.said.of(local))
            length = sum(map(len, told))
            if datagrams and size + length > max_bytes:
                reached = known.number - 1
                break
            size += length
            datagrams += told
        gone = list(takewhile(lambda each: self._gone[each] > cursor, reversed(self._gone)))
        return News(reached, datagrams, gone[::-1])
