"""Replay window: has this sender's message been accepted before?

State per (key id, sender, epoch), kept in two generations of counters::

    event                                        action
    counter in current or previous               refuse (ReplayedMessage)
    counter <= floor                             refuse (ReplayedMessage): no longer remembered
    otherwise                                    remember in current
    current spans > horizon, or is full          floor := highest counter forgotten,
                                                 previous := current, current := {}

Counters, not times, decide: a sender's counter only rises, while its clock may be set back.
Nothing is stored before the signature held, so junk cannot flush the window. Memory is bounded:
`max_senders` least recently used senders, two generations of at most `depth` counters each.
"""

from __future__ import annotations

from collections import OrderedDict

from .errors import ReplayedMessage
from .ids import Stamp

HORIZON_MS = 60_000
"""Milliseconds of the sender's clock for which each counter is remembered, unless `depth` is exceeded."""

SenderKey = tuple[str, str, int]
"""Key id, agent id and epoch of a sender."""


class _Sender:
    """What one sender epoch has sent lately."""

    __slots__ = ("current", "floor", "newest_ms", "previous", "started_ms")

    def __init__(self, ms: int) -> None:
        self.current: set[int] = set()
        self.previous: set[int] = set()
        self.started_ms = ms
        self.newest_ms = ms
        self.floor = -1

    def admit(self, ms: int, counter: int, depth: int) -> bool:
        current = self.current
        if counter <= self.floor or counter in current or counter in self.previous:
            return False
        if ms > self.newest_ms:
            self.newest_ms = ms
        if len(current) >= depth or self.newest_ms - self.started_ms > HORIZON_MS:
            self._turn()
            current = self.current
        current.add(counter)
        return True

    def _turn(self) -> None:
        self.floor = max(self.floor, max(self.previous, default=-1))
        self.previous, self.current = self.current, set()
        self.started_ms = self.newest_ms


class ReplayWindow:
    """Bounded memory of accepted messages. Not thread-safe: one owner, the agent's I/O thread.

    Args:
        max_senders: sender epochs remembered; the least recently used is forgotten first.
        depth: counters per generation and sender before the floor has to rise.
    """

    def __init__(self, max_senders: int = 4096, depth: int = 1 << 17) -> None:
        self._max_senders = max_senders
        self._depth = depth
        self._senders: OrderedDict[SenderKey, _Sender] = OrderedDict()
        self._latest: tuple[SenderKey, _Sender] | None = None

    def __len__(self) -> int:
        return len(self._senders)

    def admit(self, key_id: str, sender: str, stamp: Stamp) -> None:
        """Remember a verified message.

        Args:
            key_id: of the key that signed it, so that its holder cannot spoil another key's window.
            sender: agent id.
            stamp: the sender's own.

        Raises:
            ReplayedMessage: when it was accepted before, or is older than the window remembers.
        """
        self.admit_of((key_id, sender, stamp.epoch), stamp.ms, stamp.counter)

    def admit_of(self, of: SenderKey, ms: int, counter: int) -> None:
        """As `admit`, by key id, sender and epoch, time in milliseconds and counter."""
        latest = self._latest
        state = latest[1] if latest is not None and latest[0] == of else self._state(of, ms)
        if not state.admit(ms, counter, self._depth):
            raise ReplayedMessage(
                f"message {counter} of {of[1]} was already accepted once; it is not run again"
            )

    def _state(self, key: SenderKey, ms: int) -> _Sender:
        state = self._senders.get(key)
        if state is None:
            state = self._senders[key] = _Sender(ms)
            if len(self._senders) > self._max_senders:
                self._senders.popitem(last=False)
        else:
            self._senders.move_to_end(key)
        self._latest = (key, state)
        return state


class SeenSignatures:
    """Replay memory for PZC00, which has no time: the last signatures accepted.

    The signature is the key because it covers the joined frames: moving a byte across a frame
    boundary does not change it.
    """

    def __init__(self, limit: int = 1 << 16) -> None:
        self._limit = limit
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def admit(self, signature: bytes) -> None:
        """Remember a verified signature.

        Raises:
            ReplayedMessage: when it is among the last ``limit`` ones.
        """
        if signature in self._seen:
            raise ReplayedMessage("this signed PZC00 message was already accepted once; it is not run again")
        self._seen[signature] = None
        if len(self._seen) > self._limit:
            self._seen.popitem(last=False)
