"""Replay window: has this sender's message been accepted before?

State per (key id, sender, epoch), kept in two generations of counters::

    event                                        action
    counter in current or previous               refuse (ReplayedMessage)
    counter <= floor, time <= after              refuse (ReplayedMessage): no longer remembered
    otherwise                                    remember in current
    current spans > horizon, or is full          floor := highest counter forgotten,
                                                 previous := current, current := {}

Counters decide: a sender's counter only rises, while its clock may be set back. Nothing is stored before the
signature held. Memory is bounded by `SENDERS_PER_KEY`, and two generations of `depth` counters for each. Of
the `QUIET` senders that were silent for longest, the one with the earliest newest message goes. Its time is a
floor: messages until then from senders of its key that are not remembered are refused (``after``).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from itertools import islice

from .errors import ReplayedMessage
from .memo import keep_recent

SENDERS_PER_KEY = 4096
"""Starts of agents that one key may sign for, of which an agent remembers what it has accepted."""

_SIGNATURES_PER_KEY = 1 << 16
"""Signatures of originals that are remembered for each key."""


HORIZON_MS = 60_000
"""Milliseconds of the sender's clock for which each counter is remembered, unless `depth` is exceeded."""

QUIET = 256
"""Senders among which the one that has to go is looked for."""

SenderKey = tuple[str, str, int]
"""Key id, agent id and epoch of a sender."""


class _Sender:
    """What one sender epoch has sent lately."""

    __slots__ = ("after_ms", "current", "floor", "newest_ms", "previous", "started_ms")

    def __init__(self, ms: int, after_ms: int) -> None:
        self.after_ms = after_ms
        self.current: set[int] = set()
        self.previous: set[int] = set()
        self.started_ms = ms
        self.newest_ms = ms
        self.floor = -1

    def admit(self, ms: int, counter: int, depth: int) -> bool:
        current = self.current
        if counter <= self.floor or ms <= self.after_ms or counter in current or counter in self.previous:
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


class _Room:
    """The senders of one key, the one that was not heard of for longest first."""

    __slots__ = ("floor_ms", "senders")

    def __init__(self) -> None:
        self.senders: OrderedDict[SenderKey, _Sender] = OrderedDict()
        self.floor_ms = -1

    def add(self, key: SenderKey, ms: int, most: int) -> _Sender:
        """A sender that is not remembered, in the place of others where there are so many."""
        state = _Sender(ms, self.floor_ms)
        while len(self.senders) >= most:
            _, of = min((each.newest_ms, of) for of, each in islice(self.senders.items(), QUIET))
            self.floor_ms = max(self.floor_ms, self.senders.pop(of).newest_ms)
        self.senders[key] = state
        return state


class ReplayWindow:
    """Bounded memory of accepted messages. Not thread-safe: one owner, the agent's I/O thread.

    Args:
        depth: counters per generation and sender before the floor has to rise.
    """

    def __init__(self, depth: int = 1 << 17) -> None:
        self._depth = depth
        self._rooms: dict[str, _Room] = {}
        self._latest: tuple[SenderKey, _Sender] | None = None

    def __len__(self) -> int:
        return sum(len(room.senders) for room in self._rooms.values())

    def admit(self, of: SenderKey, ms: int, counter: int) -> None:
        """Remember a verified message.

        Args:
            of: its sender, under the key that signed it, whose holder cannot spoil another key's window.
            ms: Unix time in milliseconds, the sender's own.
            counter: likewise.

        Raises:
            ReplayedMessage: when it was accepted before, or is older than the window remembers.
        """
        latest = self._latest
        state = latest[1] if latest is not None and latest[0] == of else self._state(of, ms)
        if not state.admit(ms, counter, self._depth):
            raise ReplayedMessage(
                f"message {counter} of {of[1]} was already accepted once; it is not run again"
            )

    def _state(self, key: SenderKey, ms: int) -> _Sender:
        room = self._rooms.get(key[0])
        if room is None:
            room = self._rooms[key[0]] = _Room()
        state = room.senders.get(key)
        if state is None:
            if ms <= room.floor_ms:
                raise ReplayedMessage(
                    f"a message of {key[1]} is older than what is remembered of its key's senders: not run"
                )
            state = room.add(key, ms, SENDERS_PER_KEY)
        else:
            room.senders.move_to_end(key)
        self._latest = (key, state)
        return state


class SeenSignatures:
    """Replay memory for PZC00, which has no time: the last signatures accepted of each key.

    The signature is the key because it covers the joined frames: moving a byte across a frame
    boundary does not change it.
    """

    def __init__(self) -> None:
        self._seen = defaultdict[str, OrderedDict[bytes, None]](OrderedDict)

    def admit(self, signature: bytes, key_id: str = "") -> None:
        """Remember a verified signature.

        Raises:
            ReplayedMessage: when it is among its key's last, `_SIGNATURES_PER_KEY` of them.
        """
        seen = self._seen[key_id]
        if signature in seen:
            raise ReplayedMessage("this signed PZC00 message was already accepted once; it is not run again")
        keep_recent(seen, signature, None, _SIGNATURES_PER_KEY)
