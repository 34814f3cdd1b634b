"""Naming: what one agent is called, and how it finds others by their names.

A name is looked for among the static peers (``PZC_PEERS``) first, then in the agent's partition, then, when
it can be read as ``PARTITION/NAME``, in that one. Nothing is listened to before somebody has a name, or needs
one. Rules of the agent may put other names in the place of its own, of those that it looks for, and of those
by which its topics are announced and connected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast, get_args

from ...discovery import names
from ...discovery.events import Event
from ...discovery.names import Remapping, Style, Target
from ...discovery.records import Entry, Place
from ...discovery.site import parse_peers
from ...protocol.errors import AgentClosed, ConfigError
from ...transport import helpers
from ...transport.settings import Settings
from ...transport.wire import Protocol
from ..client.client import LOOK_FOR
from . import participants
from .discovering import ANSWERED, Participant, changed
from .unknown import unknown_name

AGAIN = 0.3
"""Seconds after which a question is asked again: it, or its answer, may be lost; then twice as many."""


class Naming:
    """The names of one agent's world; safe from any thread.

    Args:
        settings: of the agent.
        protocol: of the agent; its keys sign what is said.
        name: of the agent, possibly empty.
        namespace: of the agent; empty takes ``PZC_NAMESPACE``.
        partition: of the agent; None takes ``PZC_PARTITION``.
        enabled: False to use static peers only, and to announce nothing.
        answers: whether an agent is still at an endpoint: gets the agent id and the endpoint.
        choose: the address by which an agent is reached, within a time in seconds.
        remap: new names by old ones, or ``OLD:=NEW`` each; see `Remapping`.
        style: how names are written; ``gz`` to leave the namespace with a ``/`` in front.

    Attributes:
        called: name of the agent within its namespace; as it was given when no rule is about it.
        followers: what looks whether a name has moved, with the places where that may be.
        full: name of the agent from the root; empty when it is not announced.

    Raises:
        ConfigError: for a name, namespace, partition, static peer, rule or style that cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        protocol: Protocol,
        name: str,
        namespace: str,
        partition: str | None,
        enabled: bool,
        answers: Callable[[str, str], bool],
        choose: Callable[[Entry, float], str],
        remap: Mapping[str, str] | Iterable[str] = (),
        style: Style = "pzc",
    ) -> None:
        if style not in get_args(Style):
            raise ConfigError(f"names={style!r} cannot be used: expected one of {', '.join(get_args(Style))}")
        self._static = parse_peers(settings["PZC_PEERS"])
        self.namespace = names.checked_text(namespace or settings["PZC_NAMESPACE"], "namespace")
        if outer := self.namespace.strip("/"):
            names.check_name(f"/{outer}")
        self.enabled = enabled
        self.answers = answers
        self.choose = choose
        self._style: Style = style
        if isinstance(remap, Mapping):
            remap = [f"{old}:={new}" for old, new in cast("Mapping[str, str]", remap).items()]
        elif isinstance(remap, str) or not isinstance(cast("object", remap), Iterable):
            raise ConfigError(
                f"remap={remap!r:.80} cannot be used: expected {{'old': 'new'}} or ['old:=new']"
            )
        self._remapping = Remapping(remap, self.namespace, style)
        self.called = name
        if new := self._remapped(name):
            self.called = self._inside(new)
        self.full = self.node(name) if name and enabled else ""
        self._site = participants.site_of(settings, partition)
        self._protocol = protocol
        self._lock = threading.Lock()
        self._open: dict[str, Participant] = {}
        # Without the lock: its holder may wait for the I/O thread, which looks here.
        self.followers: dict[Callable[[], object], frozenset[Target]] = {}
        self._helping = threading.Lock()
        self._helpers: helpers.Helpers | None = None
        self._closed = False

    @property
    def partition(self) -> str:
        """Of the agent."""
        return self._site.partition

    def _participant(self, partition: str) -> Participant:
        with self._lock:
            if self._closed:
                raise AgentClosed("the agent was stopped")
            participant = self._open.get(partition)
            if participant is None:
                site = replace(self._site, partition=partition)
                participant = self._open[partition] = participants.acquire(site, self._protocol)
                participant.listen(self._on_event)
            return participant

    # --- what the agent is called ----------------------------------------------------------------------

    def name_of_topic(self, topic: str) -> str:
        """Full name of a topic of the agent.

        Raises:
            ConfigError: for a topic that cannot be a name.
        """
        return self._remapping.apply(names.absolute(f"{self.full}/{topic.strip('/')}"))

    def node(self, name: str) -> str:
        """What a name means here, from the root, once the rules were applied.

        Raises:
            ConfigError: for what cannot be a name.
        """
        return self._remapping.apply(self._absolute(name))

    def _absolute(self, name: str) -> str:
        return names.absolute(name, self.namespace, self.called, self._style)

    def _remapped(self, name: str) -> str:
        """The name from the root that a rule puts in the place of one; empty when there is no such rule."""
        if not (name and self._remapping) or name.startswith("@"):
            return ""
        old = self._absolute(name)
        new = self._remapping.apply(old)
        return "" if new == old else new

    def _inside(self, name: str) -> str:
        """A name from the root as it is called in the agent's namespace."""
        outer = self.namespace.strip("/")
        return name.removeprefix(f"/{outer}/" if outer else "/").removeprefix("/")

    # --- where others are ------------------------------------------------------------------------------

    def resolve(self, target: str, timeout: float) -> Place:
        """Where the agent of a name is; waits for it, at most `LOOK_FOR` seconds.

        Raises:
            UnknownName: when nobody has that name; tells what was heard, and what to do.
            ConfigError: for what cannot be a name.
        """
        new = self._remapped(target)
        static = self._static.get(self._inside(new) if new else target)
        if static is not None:
            return Place(static)
        if not self.enabled:
            raise unknown_name(
                target, (), (), list(self._static), 0.0, "discovery is switched off for this agent"
            )
        entry = self.known(target) if self._site.partition in self._open else None
        entry = entry or self._look_for(target, min(timeout, LOOK_FOR))
        return Place(self.choose(entry, timeout), entry, settled=False)

    def places(self, target: str) -> list[Target]:
        """Where a name may be, the first one that exists counts."""
        if new := self._remapped(target):
            here = Target(self.partition, new), Target(self.partition, f"/{self._inside(new)}")
            return list(dict.fromkeys(here))
        if target.startswith("~"):
            return [Target(self.partition, self._absolute(target))]
        return names.candidates(target, self.namespace, self._site.partition, self._style)

    def known(self, target: str) -> Entry | None:
        """Who is known by a name now, and can be reached."""
        return self._first(self.places(target))

    def _first(self, places: list[Target]) -> Entry | None:
        for place in places:
            participant = self._open.get(place.partition)
            entry = None if participant is None else participant.find(place.name)
            if entry is not None and entry.addresses:
                return entry
        return None

    def _look_for(self, target: str, seconds: float) -> Entry:
        begun = time.monotonic()
        places = self.places(target)
        here = [place for place in places if place.partition == self._site.partition]
        self._ask(here)
        entry = self._wait(here, begun + min(ANSWERED, seconds), first=True) if here else None
        pause, all_asked = AGAIN, len(here) == len(places)
        while entry is None and ((now := time.monotonic()) < begun + seconds or not all_asked):
            self._ask(places)
            entry = self._wait(places, min(now + pause, begun + seconds))
            pause, all_asked = 2 * pause, True
        if entry is None:
            waited = time.monotonic() - begun
            heard = list(self._open.values())
            raise unknown_name(target, places, heard, list(self._static), waited, "")
        return entry

    def _ask(self, places: list[Target]) -> None:
        for partition in {place.partition for place in places}:
            wanted = [place.name for place in places if place.partition == partition]
            self._participant(partition).ask(wanted)

    def _wait(self, places: list[Target], until: float, first: bool = False) -> Entry | None:
        """Wait for an agent at a place: for the first place, or at last for any."""
        with changed():
            while True:
                left = until - time.monotonic()
                entry = self._first(places[:1] if first and left > 0 else places)
                if entry is not None or left <= 0:
                    return entry
                changed().wait(left)

    def own(self) -> Participant:
        """What is said and heard in the agent's own partition."""
        return self._participant(self._site.partition)

    def match(self, pattern: str) -> list[Entry]:
        """Agents and services of the agent's own partition whose names a pattern fits."""
        return self.own().match(pattern, "agent")

    def watch(self, target: str, listener: Callable[[Event], object]) -> None:
        """Call a function with every event where a name may be, or names that fit, and ask who has it now."""
        pattern = names.is_pattern(target)
        places = [Target(self.partition, target)] if pattern else self.places(target)
        for partition in {place.partition for place in places}:
            self._participant(partition).listen(listener)
        self._ask(places)

    def hears(self) -> bool:
        """Whether a name that was looked for is heard of once somebody has it."""
        opened = list(self._open.values())
        return any(each.registering or (each.site.group and not each.problem) for each in opened)

    def unwatch(self, listener: Callable[[Event], object]) -> None:
        """End what `watch` began."""
        for participant in list(self._open.values()):
            participant.unlisten(listener)

    # --- where they are later --------------------------------------------------------------------------

    def lives(self, entry: Entry) -> bool:
        """Whether an agent is still known under its name."""
        participant = self._open.get(entry.partition)
        return participant is not None and any(
            each.agent == entry.agent for each in participant.owners(entry.name)
        )

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.kind == "topic":
            return
        place = Target(entry.partition, entry.name)
        for look, places in self.followers.copy().items():
            if place in places:
                self.help(look)

    def help(
        self, task: Callable[[], object], *, again: bool = False, new: bool = False, after: float = 0.0
    ) -> None:
        """Run something that may wait in a thread of the process, unless this is closed by then.

        Args:
            task: a few seconds long at most.
            again: it failed before.
            new: it looks for somebody who was not met yet.
            after: seconds until then.
        """
        with self._helping:  # not the other lock: its holder may wait for the I/O thread, which may be here
            if self._closed:
                return
            here = self._helpers = self._helpers or helpers.acquire()
        here.submit(partial(self._run, task), again=again, new=new, after=after)

    def _run(self, task: Callable[[], object]) -> None:
        if not self._closed:
            task()

    def statistics(self) -> dict[str, Any] | None:
        """What was heard and said in the agent's own partition; None when nobody needed it."""
        participant = self._open.get(self._site.partition)
        if participant is None:
            return None
        return {"name": self.full, "namespace": self.namespace, **participant.statistics()}

    def stay(self) -> None:
        """Follow nobody any more."""
        self.followers.clear()

    def close(self) -> None:
        """Give back everything; not the I/O thread. Again: no effect."""
        self.stay()
        with self._lock, self._helping:
            self._closed = True
            opened, self._open = list(self._open.values()), {}
            here, self._helpers = self._helpers, None
        if here is not None:
            helpers.release(here)
        for participant in opened:
            participant.unlisten(self._on_event)
            participants.release(participant)
