"""Directory: who is where in one partition, as far as its processes and the deployment have told.

::

    process    event                                            next       told
    unknown    heartbeat, entries (sent within ``max_skew``)    known      Appeared each
               what was sent before it was gone                 unknown    counted
    known      entries that are new, changed, withdrawn         known      Appeared, Changed, Vanished
               3.95 s without a newer datagram on a way         known      Changed: without its addresses
               the same on the last way                         gone       Vanished each
               the registry, which is a way of its own and      known      as if it had been silent there
               falls never silent by itself, says that it is
               gone, or does not answer for `names_held`
               BYE                                              gone       Vanished each
               a later epoch                                    known      Vanished each, Appeared
               an earlier epoch                                 known      counted
               a datagram that is not newer, or comes again     known      what it tells is merged, but it is
                                                                           no sign of life
    gone       anything later than what was heard               known      Appeared each

Heartbeats come every 0.90 to 0.94 s, so entries go 3.0 to 4.0 s after their process was killed, and a process
that stood still for 2 s loses none. Of several agents with one name the one that was started last counts;
there is a `Conflict` once the other one has been heard after that, so a restart is none. Keys: see `Claims`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

from ..protocol.memo import keep_recent
from .deadlines import Deadlines
from .events import Appeared, Changed, Conflict, Event, Process, Source, Vanished
from .index import Claims, Index, Key, key_of
from .peers import Peer, View
from .queries import Queries
from .records import Announcement, Bye, Entry, Kind, Record, Subscribe, TopicRecord, joined

PROCESSES = 5000
"""Processes of one key that a directory, or a registry, knows."""

_ENTRIES = 50_000
"""Agents and topics of other processes with one key in a directory; one heard on two ways counts twice."""

NAMES_HELD = 30.0
"""Seconds for which names that a registry told live on while it does not answer."""


SILENCE = 3.95
"""Seconds without a sign of life after which a process is gone."""

LATE = 3.0
"""Seconds by which a way may be slower than the others on which a process is heard."""

MAX_VIEWS = 16
MAX_GONE = 10_000
"""Processes that are gone and remembered, so that what they once said cannot bring them back."""

_ViewKey = tuple[bytes, Source, int]


class Directory:
    """Who is where in one partition; see the table in the module's docstring.

    ``now`` is monotonic and ``wall`` Unix time, both in seconds. `excuse` others before `tick`: whoever was
    stopped itself would take them all for dead.

    Args:
        partition: announcements of others are counted only.
        process: 16 bytes of this process, whose announcements are ignored.
        chance: evenly distributed numbers from 0 to 1, so that not all ask at once.
        max_skew: seconds by which the clock of a process may differ when it is met; None for any. It keeps
            old datagrams out, which is of use only where they are signed.
        key_id: of the key that signs what this process tells.

    Attributes:
        counters: ``other_partition other_key names_kept own old skewed views_full``, processes and entries
            for which their key has no room, ``processes_full entries_full``, and those that callers add.
        skew: seconds by which the last clock that differed by too much was ahead.
    """

    def __init__(
        self,
        partition: str,
        process: bytes,
        chance: Callable[[], float],
        *,
        max_skew: float | None = None,
        key_id: str = "",
    ) -> None:
        self.partition = partition
        self.process = process
        self.max_skew = max_skew
        self.counters: dict[str, int] = {}
        self.skew = 0.0
        self._index = Index()
        self._peers: dict[bytes, Peer] = {}
        # By key and process: epoch, and up to which sequence it is over.
        self._gone: OrderedDict[tuple[str, bytes], tuple[int, float]] = OrderedDict()
        self._met, self._held = Counter[str](), Counter[str]()
        self._key_id = key_id
        self._claims, self._now = Claims(), 0.0
        self._silence = Deadlines[_ViewKey]()
        self._queries = Queries(chance)
        self._doubts: dict[bytes, set[tuple[Key, Key]]] = {}

    def __len__(self) -> int:
        return len(self._index)

    def find(self, name: str, kind: Kind | None = None) -> Entry | None:
        """The entry of a name (from the root): a static peer, else the agent that was started last.

        Args:
            name: such as ``/robot1/psu``.
            kind: ``agent`` for agents and services; None for any.
        """
        return next(iter(self._index.owners(name, kind)), None)

    def owners(self, name: str, kind: Kind | None = None) -> list[Entry]:
        """All entries of a name (from the root), the one that counts first."""
        return self._index.owners(name, kind)

    def yields(self, said: Announcement) -> bool:
        """Whether a name that is asked for belongs to another process's agent, which shall answer first."""
        names = said.patterns if isinstance(said, Subscribe) else ()
        return any(owner.process != self.process for name in names for owner in self.owners(name)[:1])

    def match(self, pattern: str, kind: Kind | None = None) -> list[Entry]:
        """All entries whose names match, sorted by name.

        Raises:
            ConfigError: for what is no pattern; see `names`.
        """
        return self._index.match(pattern, kind)

    @property
    def known(self) -> int:
        """How many processes are heard."""
        return len(self._peers)

    def processes(self) -> list[Process]:
        """All processes that are heard."""
        return [peer.describe() for peer in self._peers.values()]

    def put(self, entry: Entry) -> list[Event]:
        """Add an entry that needs no sign of life, or change it: one of this process, or a static peer."""
        if entry.kind != "topic" and entry.number:
            self._claims.claim(entry.name, self._key_id, key_of(entry))
        old = self._index.put(entry)
        if old is None:
            return [Appeared(entry), *self._conflicts(entry)]
        return [] if old == entry else [Changed(entry)]

    def drop(self, entry: Entry) -> list[Event]:
        """Remove an entry that was `put`."""
        return self._removed(key_of(entry))

    def take(self, said: Announcement, source: Source, now: float, wall: float, key: str = "") -> list[Event]:
        """Take over what a process has announced.

        Args:
            said: as read.
            source: on which way it came.
            now: when.
            wall: the same moment in Unix seconds.
            key: id of the one that signed it.
        """
        self._now = now
        if said.partition != self.partition:
            return self._count("other_partition")
        if said.process == self.process:
            return self._count("own")
        if isinstance(said, Subscribe):
            for process in said.processes:
                self._queries.others_ask(process, now)
        skew = said.sent / 1000 - wall
        fresh = self.max_skew is None or abs(skew) <= self.max_skew
        events: list[Event] = []
        peer = self._peers.get(said.process)
        if peer is not None and peer.key_id != key:
            return self._count("other_key")
        if peer is not None and said.epoch > peer.epoch and fresh:
            events += self._forget(peer)
            peer = None
        if peer is None:
            if not self._may_be_met(said, skew, fresh, key):
                return events
            peer = self._peers[said.process] = Peer(said.process, said.epoch, key)
            self._met[key] += 1
            self._gone.pop((key, said.process), None)
        elif said.epoch != peer.epoch:
            return self._count("old")
        elif isinstance(said, Bye):
            return self._forget(peer, bye=True)
        view = self._view(peer, source, said)
        if view is None:
            return events
        if view.is_news(said):
            events += self._lives(peer, source, said, now)
        else:
            self._count("old")
        return events + self._merge(peer, view, said, now)

    def tick(self, now: float) -> list[Event]:
        """Let go of whoever was silent for too long; to be called at `next_deadline` at the latest."""
        events: list[Event] = []
        self._now = now
        for process, source, number in self._silence.due(now):
            events += self._lose(self._peers[process], source, number)
        free = self._claims.due(now)
        for peer in self._peers.values() if free else ():
            events += self._rebuilt(peer, peer.named(free))
        return events

    @property
    def next_deadline(self) -> float | None:
        """When to call `tick` and `asks` next, in monotonic seconds; None while nobody is known."""
        times = self._silence.next, self._queries.next, self._claims.next
        return min((time for time in times if time is not None), default=None)

    def asks(self, now: float) -> list[bytes]:
        """Processes that should be asked for all their entries now, at most 32."""
        return self._queries.due(now)

    def lost(self, process: bytes) -> list[Event]:
        """The registry says that a process is not there any more."""
        events: list[Event] = []
        peer = self._peers.get(process)
        for key in [] if peer is None else _told(peer):
            self._silence.drop(key)
            events += self._lose(self._peers[process], *key[1:])
        return events

    def hold(self, now: float) -> None:
        """The registry does not answer: what it told goes `NAMES_HELD` seconds later."""
        for key in _told(*self._peers.values()):
            if key not in self._silence:
                self._silence.set(key, now + NAMES_HELD)

    def trust(self) -> None:
        """The registry answers again, and is the same: what it told stays until it says otherwise."""
        for key in _told(*self._peers.values()):
            self._silence.drop(key)

    def excuse(self, seconds: float) -> None:
        """This process stood still for so long: nobody was silent then."""
        self._silence.postpone(seconds)

    def _count(self, what: str) -> list[Event]:
        self.counters[what] = self.counters.get(what, 0) + 1
        return []

    def _may_be_met(self, said: Announcement, skew: float, fresh: bool, key: str) -> bool:
        """Whether an announcement makes a process known."""
        if isinstance(said, Bye | Subscribe):
            return False
        epoch, over = self._gone.get((key, said.process), (-1, -1.0))
        if said.epoch < epoch or (said.epoch == epoch and said.sequence <= over):
            self._count("old")
        elif not fresh:
            self._count("skewed")
            self.skew = skew
        elif self._met[key] >= PROCESSES:
            self._count("processes_full")
        else:
            return True
        return False

    def _view(self, peer: Peer, source: Source, said: Announcement) -> View | None:
        view = peer.views.get((source, said.view))
        if view is not None:
            return view
        # On a way that is new, nothing else tells an old datagram from a new one.
        if said.sent < peer.sent - LATE * 1000:
            self._count("old")
        elif len(peer.views) >= MAX_VIEWS:
            self._count("views_full")
        else:
            return peer.add_view(source, said.view)
        return None

    def _lives(self, peer: Peer, source: Source, said: Announcement, now: float) -> list[Event]:
        if said.sequence > peer.sequence:
            peer.sequence, peer.sent = said.sequence, said.sent
        if source == "registry":
            self._silence.drop((peer.process, source, said.view))
        else:
            self._silence.set((peer.process, source, said.view), now + SILENCE)
        return [
            Conflict(entry, other)
            for one, two in self._doubts.pop(peer.process, ())
            for entry, other in self._still_one_name(one, two)
        ]

    def _merge(self, peer: Peer, view: View, said: Announcement, now: float) -> list[Event]:
        before, room = len(view.records), _ENTRIES - self._held[peer.key_id]
        if view.overfull and room > 0:
            view.overfull = False
        touched = view.merge(said, room)
        self._held[peer.key_id] += len(view.records) - before
        if view.overfull:
            self._count("entries_full")
        if peer.to_ask:
            self._queries.missing(peer.process, now)
        else:
            self._queries.done(peer.process)
        return self._rebuilt(peer, touched) if touched else []

    def _forget(self, peer: Peer, bye: bool = False) -> list[Event]:
        events = self._vanish(peer, peer.numbers.copy())
        for (source, number), view in peer.views.items():
            self._silence.drop((peer.process, source, number))
            self._held[peer.key_id] -= len(view.records)
        self._queries.done(peer.process)
        self._doubts.pop(peer.process, None)
        del self._peers[peer.process]
        self._met[peer.key_id] -= 1
        over = float("inf") if bye else peer.sequence
        keep_recent(self._gone, (peer.key_id, peer.process), (peer.epoch, over), MAX_GONE)
        return events

    def _lose(self, peer: Peer, source: Source, number: int) -> list[Event]:
        """A process is not heard on one way any more."""
        view = peer.views.pop((source, number))
        self._held[peer.key_id] -= len(view.records)
        if not peer.views:
            return self._forget(peer)
        return self._rebuilt(peer, set(view.records))

    def _vanish(self, peer: Peer, numbers: Iterable[int]) -> list[Event]:
        events: list[Event] = []
        for number in sorted(numbers):
            peer.numbers.discard(number)
            events += self._removed((peer.process, number))
        return events

    def _removed(self, key: Key) -> list[Event]:
        old = self._index.remove(key)
        if old is None:
            return []
        self._claims.release(old.name, key, self._now)
        return [Vanished(old)]

    def _rebuilt(self, peer: Peer, touched: set[int]) -> list[Event]:
        """What follows for entries when their records have changed."""
        records = peer.affected(touched)
        events = self._vanish(peer, touched - records.keys())
        for record in records.values():
            events += self._set(peer, record)
        return events

    def _set(self, peer: Peer, record: Record) -> list[Event]:
        agent = None
        if isinstance(record, TopicRecord):
            agent = self._index.get((peer.process, record.publisher))
            if agent is None or agent.kind == "topic":
                return self._vanish(peer, [record.number])
        entry = joined(record, self.partition, peer.process, agent)
        old = self._index.get(key_of(entry))
        if old == entry:
            return []
        if entry.kind != "topic" and not self._claims.claim(entry.name, peer.key_id, key_of(entry)):
            return [*self._count("names_kept"), *self._vanish(peer, [record.number])]
        if old is not None and old.name != entry.name:
            self._claims.release(old.name, key_of(old), self._now)
        self._index.put(entry)
        peer.numbers.add(record.number)
        event = Appeared(entry) if old is None else Changed(entry)
        claims = old is None or (old.name, old.agent) != (entry.name, entry.agent)
        return [event, *self._conflicts(entry)] if claims else [event]

    def _conflicts(self, entry: Entry) -> list[Event]:
        """Whoever else holds the name of a new entry is in doubt, until it is heard again."""
        if entry.kind == "topic" or not entry.number:
            return []
        events: list[Event] = []
        for other in self.owners(entry.name, "agent"):
            if other.agent == entry.agent or not other.number:
                continue
            if other.process in (self.process, entry.process):
                events += [Conflict(*pair) for pair in self._still_one_name(key_of(entry), key_of(other))]
            else:
                self._doubts.setdefault(other.process, set()).add((key_of(entry), key_of(other)))
        return events

    def _still_one_name(self, one: Key, two: Key) -> list[tuple[Entry, Entry]]:
        first, second = self._index.get(one), self._index.get(two)
        if first is None or second is None or first.name != second.name:
            return []
        owners = self.owners(first.name)
        return [(first, second) if owners.index(first) < owners.index(second) else (second, first)]


def _told(*peers: Peer) -> list[_ViewKey]:
    """The views of processes that a registry told."""
    return [(each.process, way, view) for each in peers for way, view in each.views if way == "registry"]
