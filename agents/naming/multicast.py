"""MulticastSockets: the sockets of discovery on this machine's interfaces, as those come and go.

::

    state     event                         next
    closed    look                          open, or deaf: why is in ``problem``
    open      interfaces have changed       open, with sockets made anew
    open      no interface can be used      deaf; tried again with every look
    deaf      an interface can be used      open
    any       close                         closed
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...discovery.datagrams import CODE_AT, was_passed_on
from ...discovery.interfaces import Interface, chosen, everywhere, reach_of
from ...discovery.multicast import Datagram, Mark, Multicast
from ...discovery.outbox import Outgoing
from ...discovery.reach import Reach
from ...discovery.records import Announcement, Heartbeat
from ...discovery.relaying import Relaying, looked_up
from ...discovery.site import Site
from ...protocol.errors import BindError, ConfigError
from ...transport.loop import Loop, Timer
from ...transport.timers import until_next

HEARTBEATS_WAIT = 0.5
"""Seconds for which heartbeats may wait, to be heard together."""


logger = logging.getLogger("pzc.discovery")

WAITING = 128
"""Heartbeats that should wait at once, at most: the system keeps about twice as many for a socket."""

SOON = 0.05
"""Seconds for which they wait at least."""

LOOK_UP = 1.0
"""Seconds for which the first look-up of relays is waited for, so that they hear the first question."""

HEARTBEATS = Mark(CODE_AT, Heartbeat.code)
"""What may wait."""

_BATCH = 64
_ALL = 4096
"""More datagrams than the system keeps for a socket."""


def patience(rate: float) -> float:
    """Seconds for which heartbeats wait when so many come in a second."""
    longest = HEARTBEATS_WAIT
    return longest if rate * longest <= WAITING else max(SOON, WAITING / rate)


class MulticastSockets:
    """Sends and receives datagrams; I/O thread, but for the constructor.

    Args:
        loop: watches the sockets.
        site: group, port and interfaces.
        process: 16 bytes of this process.
        hear: called with every datagram; returns what it says, None for one that cannot be accepted.
        whole: everything that this process says on a reach.
        heard: called when there was something to hear; with False while more waits.
        find: gives the interfaces of this machine that stand for an address; default all of them.

    Attributes:
        problem: why nothing can be said or heard; empty when it can.
        interfaces: that are known of the machine, and chosen.

    Raises:
        ConfigError: when no interface has the site's address.
    """

    def __init__(
        self,
        loop: Loop,
        site: Site,
        process: bytes,
        hear: Callable[[Datagram], Announcement | None],
        whole: Callable[[Reach], list[bytes]],
        heard: Callable[[bool], object],
        find: Callable[[str | None], list[Interface]] = chosen,
    ) -> None:
        self.problem = ""
        self.interfaces = find(site.address)
        self._find = find
        self._loop = loop
        self._site = site
        self._process = process
        self._hear = hear
        self._whole = whole
        self._heard = heard
        self._heard_self: set[int] = set()
        self._multicast: Multicast | None = None
        self._views: dict[int, Interface] = {}
        self._reaches: dict[int, Reach] = {}
        self._relaying = Relaying(site.relays)
        self._looking_up = False
        self._timer: Timer | None = None
        self._patient = 0
        self._looked = time.monotonic()
        self._find_relays(LOOK_UP)

    @property
    def everywhere(self) -> Reach:
        """Every address at which other machines may reach this process."""
        return everywhere(self.interfaces)

    def look(self) -> list[Reach] | None:
        """Follow the machine's interfaces; the reaches when these, or the interfaces, are others now."""
        self._find_relays()
        same = False
        try:
            known = self._find(self._site.address)
            same, self.interfaces = known == self.interfaces, known
            if same and (self._multicast is not None or not self._site.group):
                return None
            self.close()
            if not self._site.group:
                return []
            multicast = Multicast(self._site.group, self._site.port, known, HEARTBEATS)
        except (BindError, ConfigError) as exc:
            self.close()
            if self.problem != str(exc):
                self.problem = str(exc)
                logger.warning("agents cannot be found by name: %s", exc)
            return None if same else []
        self.problem = ""
        self._multicast = multicast
        for fileno in multicast.filenos():
            self._loop.register(fileno, partial(self._on_readable, multicast, fileno))
        if multicast.patient is not None:
            self._timer = self._loop.call_later(until_next(HEARTBEATS_WAIT), self._on_patience)
        self._relaying.begin(multicast.interfaces)
        self._views = {each.view: each for each in reversed(multicast.interfaces)}
        self._reaches = {view: reach_of(view, multicast.interfaces) for view in self._views}
        return list(self._reaches.values())

    def _find_relays(self, patience: float = 0.0) -> None:
        """Ask for the addresses of relays that have none, in a thread that may wait longer than this one."""
        if not self._relaying.unknown or self._looking_up:
            return
        look_up = threading.Thread(target=self._look_up, name="pzc-look-up", daemon=True)
        self._looking_up = True
        try:
            look_up.start()
        except RuntimeError:  # no thread is left: at the next look
            self._looking_up = False
        else:
            look_up.join(patience)

    def _look_up(self) -> None:
        try:
            for relay in tuple(self._relaying.unknown):
                try:
                    self._loop.call(partial(self._relaying.know, relay, looked_up(relay)))
                except OSError as exc:
                    self._loop.call(partial(self._relaying.miss, relay, str(exc)))
        finally:
            self._looking_up = False

    def _on_readable(self, multicast: Multicast, fileno: int) -> None:
        self._heard(self._read(multicast, fileno, _BATCH) < _BATCH)

    def _on_patience(self) -> None:
        heard = self.hear_patient()
        if self._multicast is not None:
            now, longest = time.monotonic(), HEARTBEATS_WAIT
            seconds = patience(self._patient / max(SOON, now - self._looked))
            self._looked, self._patient = now, 0
            delay = seconds if seconds < longest else until_next(longest)
            self._timer = self._loop.call_later(delay, self._on_patience)
        if heard:
            self._heard(True)

    def hear_patient(self) -> int:
        """Hear the heartbeats that wait; how many there were."""
        multicast, heard = self._multicast, 0
        if multicast is not None and multicast.patient is not None:
            heard = self._read(multicast, multicast.patient, _ALL)
        self._patient += heard
        return heard

    def _read(self, multicast: Multicast, fileno: int, most: int) -> int:
        """Hear what a socket has, at most so much; how much it was."""
        for heard in range(most):
            datagram = None if multicast is not self._multicast else multicast.receive(fileno)
            if datagram is None:
                return heard
            said = self._hear(datagram)
            if said is None:
                continue
            if said.process == self._process:
                self._heard_self.add(datagram.interface.view)
            else:
                passed, now = was_passed_on(datagram.data), time.monotonic()
                self._relaying.heard(
                    multicast, datagram, passed, now, lambda each: self._whole(self._reaches[each.view])
                )
        return most

    def say(self, sayings: Sequence[Outgoing]) -> None:
        """Send datagrams, each on its view; while deaf, nothing."""
        multicast = self._multicast
        if multicast is None:
            return
        self._relaying.tick(time.monotonic())
        for saying in sayings:
            interface = self._views.get(saying.view)
            if interface is not None:
                multicast.send(saying.data, interface)
                self._relaying.said(multicast, saying.data, interface)

    def close(self) -> None:
        """Leave the group."""
        multicast, self._multicast = self._multicast, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if multicast is not None:
            for fileno in multicast.filenos():
                self._loop.unregister(fileno)
            multicast.close()

    def statistics(self) -> dict[str, Any]:
        """What was sent, and on which interfaces this process hears itself; any thread."""
        multicast = self._multicast
        if multicast is None:
            return {"problem": self.problem, "interfaces": [], "sent": 0, "failed": 0, "guests": []}
        return {
            "problem": self.problem,
            "interfaces": [
                {
                    "name": each.name,
                    "address": each.address,
                    "heard_self": each.view in self._heard_self,
                    "error": multicast.problems.get(each.name, ""),
                }
                for each in multicast.interfaces
            ],
            "sent": multicast.sent,
            "failed": multicast.failed,
            "guests": self._relaying.guests,
        }
