"""Discovering: this process's part in finding agents by name.

One `Participant` per process and site (partition, group, port, interface, keys) is shared by all its agents.
It says what they offer, hears what others do, and tells whoever waits or listens::

    state     event                next
    absent    first acquire()      open       it says nothing before there is something to say or ask
    open      last release()       absent     others hear that its entries are gone
    any       fork in the child    absent     (the parent's participant stays the parent's)

Sockets and time belong to the I/O thread. What is known lies behind one lock of the process. A listener is
called without it, in the I/O thread or in the one that announced something, and must not wait.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from random import random
from typing import Any

from ...delivery.standstill import Standstill
from ...discovery.announcer import Announcer
from ...discovery.datagrams import Reader, Refusal, key_of, was_passed_on
from ...discovery.directory import Directory
from ...discovery.events import Conflict, Event, Process, Source, Vanished
from ...discovery.hidden import LOOKED_FOR
from ...discovery.multicast import Datagram
from ...discovery.reach import INSIDE, REGISTRY_VIEW, Reach, as_seen_here
from ...discovery.records import Announcement, Entry, Hidden
from ...discovery.site import Site
from ...protocol.keyring import Role
from ...transport import loops
from ...transport.loop import Timer
from ...transport.tables import Table
from ...transport.threads import Condition
from ...transport.wire import Protocol
from .multicast import HEARTBEATS_WAIT, MulticastSockets
from .registering import Registering

logger = logging.getLogger("pzc.discovery")

LOOK_AGAIN = 5.0
"""Seconds between two looks at the machine's interfaces."""

ANSWERED = 0.15
"""Seconds within which everybody who is there has answered."""

MAX_SKEW = 30.0
"""Seconds that the clock of a sender of signed datagrams may be off."""

LOOK = 1.0
"""Most seconds from one look at others to the next; a late one tells that this process stood still."""

LATE = 1.0
"""Seconds after which what is due is done although there is still more to hear."""

MAX_CONFLICTS = 1000
"""Names that are remembered to be held by two agents."""

Listener = Callable[[Event], object]


class _News(Table):
    """The process's condition, new after a fork."""

    def begin(self) -> None:
        super().begin()
        self.changed = Condition()


_news = _News()


def changed() -> Condition:
    """Guards what every participant of the process knows; notified after every event."""
    return _news.changed


class Participant:
    """Says and hears who is there, for one site. Made by `acquire`, never directly.

    Args:
        site: among whom.
        protocol: its keys are those that are accepted, and signed with.

    Attributes:
        process: 16 bytes by which others know this process here.
        conflicts: names that several agents hold, with their owners as people read them.
        registering: the relation to the registry; None without one.

    Raises:
        ConfigError: when no interface has the site's address.
    """

    def __init__(self, site: Site, protocol: Protocol) -> None:
        keyring = protocol.codec.keyring
        self.site = site
        self.process = os.urandom(16)
        self.conflicts: dict[str, tuple[str, ...]] = {}
        self._reader = Reader(keyring)
        self._directory = Directory(
            site.partition,
            self.process,
            random,
            max_skew=None if keyring is None else MAX_SKEW,
            key_id=keyring.active.key_id if keyring else "",
        )
        key = None if keyring is None else keyring.active
        self._observer = "" if key is None or key.role >= Role.OPERATOR else key.name
        now, epoch = time.monotonic(), int(time.time())
        self._announcer = Announcer(self.process, epoch, site.partition, key, now, random, bool(site.relays))
        self._listeners: list[Listener] = []
        self._look_at = self._ticked = 0.0
        self._standstill = Standstill(LOOK, now)
        self._timer: Timer | None = None
        self._closed = False
        self.registering: Registering | None = None
        self._loop = loops.acquire()
        try:
            self._multicast = MulticastSockets(
                self._loop, site, self.process, self._on_datagram, self._whole, self._on_heard
            )
            self._loop.run(self._work)
            if site.registry:
                self.registering = Registering(self._loop, protocol, site.registry, self)
                self.registering.start()
        except BaseException:
            loops.release(self._loop)
            raise

    def __repr__(self) -> str:
        return f"<Participant {self.process.hex()[:8]} of {self.site}>"

    # --- what agents say and ask -----------------------------------------------------------------------

    def announce(self, entry: Entry) -> Entry:
        """Tell everybody of something with a name; any thread.

        Args:
            entry: with endpoints as they are bound.

        Returns:
            The same with its number, for `change` and `withdraw`.
        """
        if self._observer:
            why = "nobody will find %s: key %s is observer, and to announce takes operator"
            logger.warning(why, entry.name, self._observer)
        return self._announce(self._announcer.add, entry)

    def change(self, entry: Entry) -> Entry:
        """Tell everybody that something is different now; by its number."""
        return self._announce(self._announcer.change, entry)

    def _announce(self, say: Callable[[Entry, float], Entry], entry: Entry) -> Entry:
        now = time.monotonic()
        with changed():
            told = say(entry, now)
            events = self._directory.put(as_seen_here(told))
        self._changed_here(events)
        return told

    def withdraw(self, entries: Iterable[Entry]) -> None:
        """Tell everybody that some things are gone; any thread."""
        now, events = time.monotonic(), list[Event]()
        with changed():
            for entry in entries:
                self._announcer.remove(entry.number, now)
                events += self._directory.drop(as_seen_here(entry))
        self._changed_here(events)

    def _changed_here(self, events: Sequence[Event]) -> None:
        self._tell(events)
        self._loop.call(self._work)
        if self.registering is not None:
            self.registering.changed()

    def ask(self, patterns: Iterable[str]) -> None:
        """Ask everybody for names or patterns; those who have one answer within 0.1 s."""
        with changed():
            self._announcer.ask(patterns)
        self._loop.call(self._work)

    def find(self, name: str) -> Entry | None:
        """The agent or service that holds a name, from the root; of several the one started last."""
        with changed():
            return self._directory.find(name, "agent")

    def owners(self, name: str) -> list[Entry]:
        """Every agent or service that holds a name."""
        with changed():
            return self._directory.owners(name, "agent")

    def match(self, pattern: str, kind: str | None = None) -> list[Entry]:
        """What is known by names that a pattern fits."""
        with changed():
            return self._directory.match(pattern, kind)  # pyright: ignore[reportArgumentType]

    def processes(self) -> list[Process]:
        """Every other process that was heard of."""
        with changed():
            return self._directory.processes()

    def listen(self, listener: Listener) -> None:
        """Call a function with every event from now on."""
        with changed():
            self._listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        """Call it no more; unknown ones are ignored."""
        with changed():
            self._listeners = [each for each in self._listeners if each != listener]

    @property
    def problem(self) -> str:
        """Why nothing can be said or heard by multicast; empty when it can."""
        return self._multicast.problem

    def statistics(self) -> dict[str, Any]:
        """What was heard, refused and said."""
        with changed():
            return {
                "partition": self.site.partition, "process": self.process.hex(),
                "registry": self.registering and self.registering.statistics(),
                "processes": self._directory.known, "entries": len(self._directory),
                **self._multicast.statistics(), "refused": dict(self._reader.refused),
                "last_refused": {reason: last.detail for reason, last in self._reader.last.copy().items()},
                "counts": dict(self._directory.counters), "skew": self._directory.skew,
                "conflicts": {name: list(owners) for name, owners in self.conflicts.copy().items()},
                "hidden": dict(self._announcer.hiding.heard),
            }  # fmt: skip

    # --- what a registry asks, and tells; I/O thread ---------------------------------------------------

    def beat(self, local: bool) -> list[bytes]:
        """A heartbeat, for this machine or for others."""
        with changed():
            return self._announcer.beat(self._reach(local), time.time())

    def whole(self, local: bool) -> list[bytes]:
        """Everything that this process says, in datagrams, likewise."""
        return self._whole(self._reach(local))

    def _reach(self, local: bool) -> Reach:
        return INSIDE if local else self._multicast.everywhere

    def heard(self, datagrams: Iterable[bytes]) -> None:
        """The registry passed on what others said."""
        for data in datagrams:
            self.take(data, "registry", REGISTRY_VIEW)
        self._work()

    def lost(self, processes: Iterable[bytes]) -> None:
        """The registry says which processes are not there any more."""
        with changed():
            events = [event for process in processes for event in self._directory.lost(process)]
        self._tell(events)

    def silent(self) -> None:
        """The registry does not answer: what is known from it is kept for a while."""
        with changed():
            self._directory.hold(time.monotonic())

    def back(self) -> None:
        """It answers again, and knows what it knew."""
        with changed():
            self._directory.trust()

    # --- the I/O thread --------------------------------------------------------------------------------

    def _on_datagram(self, datagram: Datagram) -> Announcement | None:
        source = "multicast" if datagram.carrier == "group" else "relay"
        waited = time.time() - datagram.at if datagram.at else 0.0
        # The clock may have been set meanwhile.
        waited = min(max(waited, 0.0), HEARTBEATS_WAIT)
        return self.take(datagram.data, source, datagram.interface.view, waited)

    def _on_heard(self, all_of_it: bool) -> None:
        if all_of_it or time.monotonic() - self._ticked > LATE:
            self._work()

    def _whole(self, reach: Reach) -> list[bytes]:
        with changed():
            return self._announcer.whole(reach, time.time())

    def take(self, data: bytes, source: Source, view: int, waited: float = 0.0) -> Announcement | None:
        """Learn from a datagram, however it came; I/O thread.

        Args:
            data: its bytes.
            source: how it came.
            view: of the interface on which it came.
            waited: seconds since it came.

        Returns:
            What it says; None when it cannot be accepted, which is counted.
        """
        said = self._reader.read(data)
        if isinstance(said, Refusal):
            return None
        if isinstance(said, Hidden):
            self._announcer.hiding.learn(said.names, said.host)
            return said
        now = time.monotonic()
        with changed():
            self._directory.excuse(self._standstill.look(now))
            by = "relay" if was_passed_on(data) else source
            events = self._directory.take(said, by, now - waited, time.time(), key_of(data))
            if said.partition == self.site.partition and said.process != self.process:
                self._announcer.hear(said, view, now - waited, self._directory.yields(said))
        self._tell(events)
        return said

    def _work(self) -> None:
        """Do what is due, and say when the next thing is."""
        if self._closed:
            return
        now = time.monotonic()
        with changed():
            self._directory.excuse(self._standstill.look(now))
            next_end = self._directory.next_deadline
        if next_end is not None and next_end <= now:  # whoever seems dead may have said something meanwhile
            self._multicast.hear_patient()
        if now >= self._look_at:
            self._look_at = now + LOOK_AGAIN
            reaches = self._multicast.look()
            if reaches is not None:
                with changed():
                    self._announcer.reaches(reaches, now, self._multicast.everywhere)
                if self.registering is not None:
                    self.registering.changed()
        self._ticked = now
        with changed():
            events = self._directory.tick(now)
            if asks := self._directory.asks(now):
                self._announcer.ask_processes(asks)
            sayings = self._announcer.due(now, time.time())
            look = now + LOOK if self._directory.known else None
            deadlines = look, self._announcer.next_deadline, self._directory.next_deadline
            due = min([self._look_at, *(each for each in deadlines if each is not None)])
        self._multicast.say(sayings)
        while noted := self._announcer.hiding.noted:
            logger.warning(LOOKED_FOR, noted.pop())
        self._tell(events)
        timer = self._timer
        if timer is None or timer.cancelled or timer.due <= now or due < timer.due:
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_later(max(0.001, due - now), self._work)

    def _tell(self, events: Sequence[Event]) -> None:
        if not events:
            return
        for event in events:
            if isinstance(event, Conflict) and event.entry.kind != "topic":
                self._on_conflict(event)
            elif isinstance(event, Vanished) and len(self.owners(event.entry.name)) < 2:
                self.conflicts.pop(event.entry.name, None)
        with changed():
            listeners = self._listeners
            changed().notify_all()
        for event in events:
            for listener in listeners:
                try:
                    listener(event)
                except Exception:
                    logger.exception("a listener of %r failed", self)

    def _on_conflict(self, conflict: Conflict) -> None:
        name, pair = conflict.entry.name, (conflict.entry.owner, conflict.other.owner)
        known = self.conflicts.get(name, ())
        owners = tuple(dict.fromkeys((*[each.owner for each in self.owners(name)], *pair)))
        if not set(pair) <= set(known):
            logger.warning(
                "the name %s is held by %d agents: %s; the one started last is found by it. "
                "Give each of them another name, namespace or partition", name, len(owners), ", ".join(owners)
            )  # fmt: skip
        if name in self.conflicts or len(self.conflicts) < MAX_CONFLICTS:
            self.conflicts[name] = owners

    def close(self) -> None:
        """Tell everybody that this process's entries are gone, and close the sockets; not the I/O thread."""
        try:
            if self.registering is not None:
                self.registering.close()
            self._loop.run(self._end)
        finally:
            loops.release(self._loop)

    def _end(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        with changed():
            self._multicast.say(self._announcer.bye(time.time()))
        self._multicast.close()
