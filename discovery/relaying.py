"""Relaying: discovery across networks that multicast does not cross, by unicast to a relay host.

A process that is told of a relay (``PZC_RELAY``) says there what it says to its own network. Whoever gets
that at the port of the group treats the sender as a *guest*, until it was silent for `GUEST_STAYS` seconds::

    heard                                     passed on, marked as relayed
    from a guest                              to the own networks, and to the other guests
    from the own networks                     to the guests
    marked as relayed, or an answer           to nobody

A guest gets what this process itself says as well, at once and whenever it says something.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Sequence

from .datagrams import passed_on
from .interfaces import Interface
from .multicast import Datagram, Multicast

logger = logging.getLogger("pzc.relay")

GUEST_STAYS = 10.0
"""Seconds of silence after which a guest is sent nothing more."""

MAX_GUESTS = 64
"""Guests at one time; more are not answered."""

Address = tuple[str, int]


class Relaying:
    """Relays that this process sends to, and guests that send to it; I/O thread, but for the constructor.

    Args:
        relays: hosts with their ports.

    Attributes:
        unknown: relays that have no address yet, and why, as far as it was told.
        refused: datagrams of guests for whom there was no room.
    """

    def __init__(self, relays: Sequence[Address]) -> None:
        self.refused = 0
        self.unknown = dict.fromkeys(relays, "")
        self._relays: list[Address] = []
        self._interfaces: Sequence[Interface] = ()
        self._routes: dict[str, list[Address]] = {}
        self._guests: dict[Address, tuple[Interface, float]] = {}
        for relay in relays:
            with contextlib.suppress(OSError):
                self.know(relay, looked_up(relay, socket.AI_NUMERICHOST))

    @property
    def guests(self) -> list[Address]:
        """Who is sent what is heard here."""
        return list(self._guests)

    def begin(self, interfaces: Sequence[Interface]) -> None:
        """These are the interfaces from now on."""
        self._guests.clear()
        self._routes, self._interfaces = {}, interfaces
        for relay in self._relays:
            self._reach(relay)

    def know(self, relay: Address, address: Address) -> None:
        """A relay that was unknown has an address."""
        if self.unknown.pop(relay, None) is not None:
            self._relays.append(address)
            if self._interfaces:
                self._reach(address)

    def miss(self, relay: Address, why: str) -> None:
        """A relay that was unknown still is."""
        if self.unknown.get(relay, why) != why:
            self.unknown[relay] = why
            logger.warning("the relay %s:%s of PZC_RELAY is not known yet: %s", *relay, why)

    def _reach(self, relay: Address) -> None:
        local = _local_address(relay)
        if any(interface.address == local for interface in self._interfaces):
            self._routes.setdefault(local, []).append(relay)
        else:
            logger.warning("the relay %s:%s is not reached by an interface that is used here", *relay)

    def tick(self, now: float) -> None:
        """Forget guests that are silent; ``now`` in monotonic seconds."""
        for guest in [guest for guest, (_, until) in self._guests.items() if until < now]:
            del self._guests[guest]

    def said(self, multicast: Multicast, data: bytes, interface: Interface) -> None:
        """This process has said something on an interface."""
        for relay in self._routes.get(interface.address, ()):
            multicast.send_to(data, relay)
        for guest, (its, _) in self._guests.items():
            if its == interface:
                multicast.send_to(data, guest)

    def heard(
        self,
        multicast: Multicast,
        datagram: Datagram,
        passed: bool,
        now: float,
        whole: Callable[[Interface], Sequence[bytes]],
    ) -> None:
        """An announcement of another process was read from a datagram.

        Args:
            multicast: on which it came.
            datagram: its bytes, and whence.
            passed: whether it was passed on before.
            now: in monotonic seconds.
            whole: everything that this process has to say on an interface.
        """
        self.tick(now)
        if passed or datagram.carrier == "own" or (datagram.carrier == "group" and not self._guests):
            return
        if datagram.carrier == "relay" and not self._greet(multicast, datagram, now, whole):
            return
        marked = passed_on(datagram.data)
        if datagram.carrier == "relay":
            for interface in multicast.interfaces:
                multicast.send(marked, interface)
        for guest in self._guests:
            if guest != datagram.source:
                multicast.send_to(marked, guest)

    def _greet(
        self,
        multicast: Multicast,
        datagram: Datagram,
        now: float,
        whole: Callable[[Interface], Sequence[bytes]],
    ) -> bool:
        """Take in the sender as a guest; False when there is no room."""
        guest = datagram.source
        new = guest not in self._guests
        if new and len(self._guests) >= MAX_GUESTS:
            self.refused += 1
            return False
        self._guests[guest] = datagram.interface, now + GUEST_STAYS
        for data in whole(datagram.interface) if new else ():
            multicast.send_to(data, guest)
        return True


def looked_up(relay: Address, flags: int = 0) -> Address:
    """The address of a relay, which may take long to find out, unless it is one already.

    Raises:
        OSError: when it has none.
    """
    try:
        *_, address = socket.getaddrinfo(*relay, socket.AF_INET, socket.SOCK_DGRAM, 0, flags)[0]
    except UnicodeError as exc:
        raise OSError(str(exc)) from exc
    return str(address[0]), int(address[1])


def _local_address(to: Address) -> str:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(to)
        return str(probe.getsockname()[0])
    return ""
