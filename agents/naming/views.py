"""Views: as what others see this process on each of its network interfaces, and as what it sees itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...discovery.interfaces import Interface
from ...discovery.reach import Reach, seen_from
from ...discovery.records import Entry

LOOPBACK = Reach(0, ("127.0.0.1", "::1"), True)
"""What is said inside this machine."""


REGISTRY_VIEW = 65_535
"""The number of what goes by way of a registry."""


def everywhere(interfaces: Sequence[Interface]) -> Reach:
    """Every address at which other machines may reach this process."""
    outside = [interface for interface in interfaces if not interface.loopback]
    ipv6 = [text for each in outside for text in each.ipv6 if "%" not in text]
    return Reach(REGISTRY_VIEW, tuple(dict.fromkeys([*(each.address for each in outside), *ipv6])))


def view_of(interface: Interface) -> int:
    """The number by which others tell this process's interfaces apart."""
    return 0 if interface.loopback else interface.index or 1


def reach_of(view: int, interfaces: Sequence[Interface]) -> Reach:
    """The addresses at which this process is reached by those that it is heard by on an interface."""
    if not view:
        return LOOPBACK
    here = [each for each in interfaces if view_of(each) == view]
    ipv6 = [text for each in here[:1] for text in each.ipv6 if "%" not in text]
    return Reach(view, (*(each.address for each in here), *ipv6))


def as_seen_here(entry: Entry) -> Entry:
    """An entry with bound endpoints, with those to be used in this process."""
    return replace(entry, addresses=_seen(entry.addresses), pub_addresses=_seen(entry.pub_addresses))


def _seen(endpoints: Sequence[str]) -> tuple[str, ...]:
    inside = (endpoint for endpoint in endpoints if endpoint.startswith("inproc://"))
    return (*inside, *seen_from(endpoints, LOOPBACK))
