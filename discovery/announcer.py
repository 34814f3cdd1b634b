"""Announcer: what a process says of its entries, and when.

::

    event                              said on every outbox that shows the entry          when
    add, change                        ADVERTISE: the entry                            at once, +0.1 s, +0.3 s
    remove                             UNADVERTISE: its number                         at once, +0.1 s, +0.3 s
    SUBSCRIBE with a matching pattern  ADVERTISE: the entry and its agent              within 50 ms, or 100
    SUBSCRIBE with this process        ADVERTISE: everything                           within 50 ms
    a new outbox                          ADVERTISE: everything                           at once
    an entry was shown here once       HEARTBEAT                                       each 0.90 to 0.94 s
    ask, ask_processes                 SUBSCRIBE                                       at once
    relayed, and no entry is shown     SUBSCRIBE, of nothing                           each 3 s
    bye                                BYE, twice; nothing after it                    at once

Answers wait for each other: whoever asks until an answer is sent gets that one; 100: `Directory.yields`.
All but HEARTBEAT and BYE is paid for out of a bucket of 64 KiB, which 10 000 bytes per second flow into. What
the bucket cannot pay stays to be said, as it is then, and is said when it can.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..protocol.errors import LocalProtocolError
from ..protocol.keyring import Key
from .datagrams import MAX_DATAGRAM, batches, fitting, write
from .hidden import Hiding
from .names import Pattern, check_partition
from .outbox import REPEATS, Out, Outbox, Outgoing
from .queries import MAX_ASKS
from .reach import Reach, seen_from
from .records import (
    Advertise,
    Announcement,
    Bye,
    Entry,
    Heartbeat,
    Hidden,
    Record,
    Subscribe,
    Unadvertise,
    check,
    record_of,
)

BEAT = 0.90
BEAT_JITTER = 0.04
"""A heartbeat comes 0.90 to 0.94 s after the last one; see `directory.SILENCE`."""

KNOCK = 3.0
"""Seconds after which a relay hears of a process that has nothing to say; see `relaying.GUEST_STAYS`."""

MAX_DELAY = 0.05
"""Seconds that an answer may wait, so that many do not answer at one moment."""

BUCKET = 65_536
RATE = 10_000
UDP = 28
"""Bytes that UDP and IPv4 add to a datagram."""

MAX_ENTRIES = 10_000
MAX_ASKED = 1000
"""Names, and processes, that wait to be asked for."""

_PATTERNS_AT_ONCE = 3
_GONE_AT_ONCE = 200


class Announcer:
    """See the table in the module's docstring; ``now`` is monotonic and ``wall`` Unix time, both in seconds.

    Args:
        process: 16 random bytes, new for every start and every fork.
        epoch: when it begins, in Unix seconds.
        partition: of all its entries.
        key: signs every datagram; None to sign none.
        now: when it begins.
        chance: evenly distributed numbers from 0 to 1.
        relayed: a relay is told as well, which tells only those that it hears.

    Attributes:
        sent: bytes so far, with 28 of UDP and IPv4 for each datagram.

    Raises:
        ConfigError: for what cannot be a partition.
    """

    def __init__(
        self, process: bytes, epoch: int, partition: str, key: Key | None, now: float,
        chance: Callable[[], float], relayed: bool = False,
    ) -> None:  # fmt: skip
        self.process = process
        self.epoch = epoch
        self.partition = check_partition(partition)
        self.sent = 0
        self._key = key
        self._chance = chance
        self._outboxes: dict[int, Outbox] = {}
        self._entries: dict[int, Entry] = {}
        self._revisions: dict[int, int] = {}
        self._revision = self._last = self._sequence = 0
        self._patterns: dict[str, None] = {}
        self._processes: dict[bytes, None] = {}
        self._tokens, self._paid_at = float(BUCKET), now
        self._elsewhere: tuple[int, dict[Reach, Outbox]] = 0, {}
        self._registry: Reach | None = None
        self._ended, self._knock_at = False, now if relayed else math.inf
        self.hiding = Hiding()

    def reaches(self, reaches: Sequence[Reach], now: float, told: Reach | None = None) -> None:
        """On which reaches, each with its own view number, to speak, and tell a registry, from now on."""
        old = self._outboxes
        if ([outbox.reach for outbox in old.values()], self._registry) == (list(reaches), told):
            return
        self._registry = told
        self._outboxes = {reach.view: Outbox(reach) for reach in reaches}
        for outbox in self._outboxes.values():
            outbox.spoken = outbox.reach.view in old and old[outbox.reach.view].spoken
            outbox.beat_at = now
            outbox.say_all(now)
        # Others take over what an entry looks like there only with a new revision.
        for number in self._agents_first():
            self._show(number, None)

    def add(self, entry: Entry, now: float) -> Entry:
        """Announce an entry.

        Args:
            entry: with the endpoints that were bound, such as ``tcp://0.0.0.0:5555``; a topic with the number
                of its agent as ``publisher``.
            now: when.

        Returns:
            The entry with its process, partition and number.

        Raises:
            LocalProtocolError: when others would not accept it, or there are 10 000.
        """
        if len(self._entries) >= MAX_ENTRIES:
            raise LocalProtocolError(f"a process announces at most {MAX_ENTRIES} agents and topics")
        number = self._last + 1
        told = replace(entry, number=number, process=self.process, partition=self.partition)
        check(record_of(told, 0, (), ()))
        if told.kind == "topic" and told.publisher not in self._entries:
            raise LocalProtocolError(
                f"topic {told.name!r} needs the number of its agent, not {told.publisher}"
            )
        self._last = number
        self._entries[number] = told
        self._show(number, now)
        return told

    def change(self, entry: Entry, now: float) -> Entry:
        """Announce an entry of a number that was added, as it is now; returns it as `add`.

        Raises:
            LocalProtocolError: when others would not accept it, or nothing has that number.
        """
        old = self._entries.get(entry.number)
        if old is None or (old.kind == "topic") != (entry.kind == "topic"):
            raise LocalProtocolError(
                f"number {entry.number} was not given to {entry.name[:80]!r} or its like"
            )
        told = replace(entry, process=self.process, partition=self.partition)
        if old != told:
            check(record_of(told, 0, (), ()))
            self._entries[told.number] = told
            # Whether a topic is seen depends on the addresses of its agent.
            for number in (told.number, *self._topics(told.number)):
                self._show(number, now)
        return told

    def remove(self, number: int, now: float) -> None:
        """Withdraw an entry; with an agent go its topics. Nothing happens when there is none."""
        if number not in self._entries:
            return
        self._revision += 1
        for gone in [*self._topics(number), number]:
            del self._entries[gone], self._revisions[gone]
            for outbox in self._outboxes.values():
                if outbox.set(gone, None):
                    outbox.say(gone, [now + pause for pause in REPEATS])

    def ask(self, patterns: Iterable[str]) -> None:
        """Ask all processes for names (from the root) or patterns.

        Raises:
            ConfigError: for what is neither.
        """
        for pattern in patterns:
            Pattern(pattern)
            if len(self._patterns) < MAX_ASKED:
                self._patterns[pattern] = None

    def ask_processes(self, processes: Iterable[bytes]) -> None:
        """Ask these processes for all their entries."""
        for process in processes:
            if len(self._processes) < MAX_ASKED:
                self._processes[process] = None

    def hear(self, said: Announcement, view: int, now: float, after: bool = False) -> None:
        """Note what was read on a reach: a SUBSCRIBE is answered, ``after`` what another process answers."""
        outbox = self._outboxes.get(view)
        if outbox is None or not isinstance(said, Subscribe) or said.partition != self.partition:
            return
        if outbox.reach.loopback:
            self.hiding.near(said.process, now)
        else:
            unseen = [entry for number, entry in self._entries.items() if number not in outbox.records]
            self.hiding.ask(said.process, view, unseen, said.patterns, now)
        at = now + MAX_DELAY * (self._chance() + after)
        if self.process in said.processes and self._last:
            outbox.say_all(at)
        if self._entries:
            outbox.ask(said.patterns, at)

    def due(self, now: float, wall: float) -> Out:
        """What to send now; to be called at `next_deadline` at the latest, and after every other call."""
        if self._ended:
            return []
        self._tokens = min(BUCKET, self._tokens + max(0.0, now - self._paid_at) * RATE)
        self._paid_at = now
        out: Out = []
        knocks = self._knock_at <= now
        if knocks:
            self._knock_at = now + KNOCK
        for outbox in self._outboxes.values():
            if outbox.spoken and outbox.beat_at <= now:
                outbox.beat_at = now + BEAT + BEAT_JITTER * self._chance()
                self._send(out, outbox, Heartbeat, wall)
            elif knocks and not outbox.spoken:
                self._send(out, outbox, Subscribe, wall)
            self._answer(outbox, now)
            self._say_whole(out, outbox, now, wall)
            self._say_due(out, outbox, now, wall)
        self._ask_due(out, wall)
        for view, names, host in self.hiding.due(now):
            if outbox := self._outboxes.get(view):
                self._pay(out, outbox, Hidden, wall, names, host)
        return out

    @property
    def next_deadline(self) -> float:
        """When to call `due`, in monotonic seconds; infinity when there is nothing to say."""
        if self._ended:
            return math.inf
        times = [self.hiding.next, *(outbox.next for outbox in self._outboxes.values())]
        if self._outboxes and (self._patterns or self._processes):
            times.append(self._paid_at)
        # What could not be paid waits until the largest datagram can be.
        missing = MAX_DATAGRAM + UDP - self._tokens
        affordable = self._paid_at + (missing / RATE + 0.001 if missing > 0 else 0.0)
        waiting = max(affordable, min((time for time in times if time is not None), default=math.inf))
        beats = (outbox.beat_at for outbox in self._outboxes.values() if outbox.spoken)
        return min([waiting, self._knock_at, *beats])

    def bye(self, wall: float) -> Out:
        """What to send at the end; `due` says nothing after it."""
        out: Out = []
        for outbox in [] if self._ended else [*self._outboxes.values()] * 2:
            if outbox.spoken:
                self._send(out, outbox, Bye, wall)
        self._ended = True
        return out

    def beat(self, reach: Reach, wall: float) -> list[bytes]:
        """A HEARTBEAT for a reach, also one not in use; what it takes does not depend on the entries."""
        out: Out = []
        self._send(out, self._seen(reach), Heartbeat, wall)
        return [outgoing.data for outgoing in out]

    def whole(self, reach: Reach, wall: float) -> list[bytes]:
        """Everything that is said on a reach, also on one not in use: a HEARTBEAT, then all entries."""
        outbox, beat, out = self._seen(reach), self.beat(reach, wall), Out()
        for records, first, last in self._spans(outbox):
            self._send(out, outbox, Advertise, wall, records, first, last)
        return [*beat, *(outgoing.data for outgoing in out)]

    def _seen(self, reach: Reach) -> Outbox:
        """All entries as they are seen on a reach; kept until one is different."""
        if self._elsewhere[0] != self._revision:
            self._elsewhere = self._revision, {}
        outboxes = self._elsewhere[1]
        if reach not in outboxes:
            outbox = outboxes[reach] = Outbox(reach)
            for number in self._agents_first():
                outbox.set(number, self._record(self._entries[number], outbox))
        return outboxes[reach]

    def _agents_first(self) -> list[int]:
        return sorted(self._entries, key=lambda number: (self._entries[number].kind == "topic", number))

    def _topics(self, publisher: int) -> list[int]:
        if self._entries[publisher].kind == "topic":
            return []
        return [number for number, entry in self._entries.items() if entry.publisher == publisher]

    def _show(self, number: int, now: float | None) -> None:
        """Show an entry everywhere as it is now, under a new revision, and say so if ``now`` is given."""
        self._revision += 1
        self._revisions[number] = self._revision
        for outbox in self._outboxes.values():
            if outbox.set(number, self._record(self._entries[number], outbox)) and now is not None:
                outbox.say(number, [now + pause for pause in REPEATS])

    def _record(self, entry: Entry, outbox: Outbox) -> Record | None:
        """What others on a reach see of an entry, or None."""
        if entry.scope == "process" or (entry.scope == "host" and not outbox.reach.loopback):
            return None
        revision = self._revisions[entry.number]
        if entry.kind == "topic":
            return record_of(entry, revision, (), ()) if entry.publisher in outbox.records else None
        addresses = seen_from(entry.addresses, outbox.reach)
        if not addresses:
            return None
        return fitting(record_of(entry, revision, addresses, seen_from(entry.pub_addresses, outbox.reach)))

    def _answer(self, outbox: Outbox, now: float) -> None:
        """Have what was asked for said now."""
        if outbox.asked_at is None or outbox.asked_at > now:
            return
        wanted = [Pattern(text) for text in outbox.asked]
        outbox.asked_at = None
        outbox.asked.clear()
        for number, record in outbox.records.items():
            if any(pattern.matches(record.name) for pattern in wanted):
                outbox.answer(number, now)
                if publisher := self._entries[number].publisher:
                    outbox.answer(publisher, now)

    def _say_due(self, out: Out, outbox: Outbox, now: float, wall: float) -> None:
        numbers = outbox.due(now)
        gone = [number for number in numbers if number not in outbox.records]
        for start in range(0, len(gone), _GONE_AT_ONCE):
            part = tuple(gone[start : start + _GONE_AT_ONCE])
            if not self._pay(out, outbox, Unadvertise, wall, part):
                return
            outbox.done(part, now)
        for records in batches([outbox.records[n] for n in numbers if n in outbox.records], self.partition):
            if not self._pay(out, outbox, Advertise, wall, records):
                return
            outbox.done([record.number for record in records], now)

    def _say_whole(self, out: Out, outbox: Outbox, now: float, wall: float) -> None:
        if outbox.whole_at is None or outbox.whole_at > now:
            return
        for records, first, last in self._spans(outbox, outbox.said_to):
            if not self._pay(out, outbox, Advertise, wall, records, first, last):
                return
            outbox.said_to = last
        outbox.whole_at, outbox.said_to = None, 0
        outbox.done(outbox.due(now), now)

    def _spans(self, outbox: Outbox, said_to: int = 0) -> Iterator[tuple[tuple[Record, ...], int, int]]:
        """What to say to say everything: records, and from which number to which these are all."""
        numbers = sorted(number for number in outbox.records if number > said_to)
        parts = list(batches([outbox.records[number] for number in numbers], self.partition)) or [()]
        for part in parts if self._last > said_to and outbox.spoken else ():
            last = self._last if part is parts[-1] else part[-1].number
            yield part, said_to + 1, last
            said_to = last

    def _ask_due(self, out: Out, wall: float) -> None:
        while self._outboxes and (self._patterns or self._processes):
            patterns = tuple(itertools.islice(self._patterns, _PATTERNS_AT_ONCE))
            processes = () if patterns else tuple(itertools.islice(self._processes, MAX_ASKS))
            outboxes = self._outboxes.values()
            if not all(self._pay(out, outbox, Subscribe, wall, patterns, processes) for outbox in outboxes):
                return
            for pattern in patterns:
                del self._patterns[pattern]
            for process in processes:
                del self._processes[process]

    def _pay(self, out: Out, box: Outbox, kind: type[Announcement], wall: float, *rest: Any) -> bool:
        """Send if the bucket can pay even the largest datagram."""
        if self._tokens < MAX_DATAGRAM + UDP:
            return False
        self._send(out, box, kind, wall, *rest)
        return True

    def _send(self, out: Out, box: Outbox, kind: type[Announcement], wall: float, *rest: Any) -> None:
        self._sequence += 1
        said = kind(
            self.process, self.epoch, self._sequence, int(wall * 1000), self.partition, box.reach.view,
            self._revision, len(box.records), box.digest, *rest,
        )  # fmt: skip
        data = write(said, self._key)
        size = len(data) + UDP
        self.sent += size
        self._tokens = max(0.0, self._tokens - size)
        out.append(Outgoing(box.reach.view, data))
