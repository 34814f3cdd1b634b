"""Reach: which addresses of an agent are of use to whoever hears the process on one of its interfaces.

::

    bound to                 announced on loopback          on another interface
    tcp://127.0.0.1:5555     as it is                       not at all
    tcp://0.0.0.0:5555       tcp://127.0.0.1:5555           tcp://<its IPv4 addresses>:5555
    tcp://[::]:5555          tcp://127.0.0.1:5555           tcp://<its addresses>:5555
    tcp://10.0.0.7:5555      as it is                       as it is where 10.0.0.7 belongs, else not at all
    tcp://rack3:5555         as it is                       as it is
    ipc:///run/psu           as it is                       not at all
    inproc://psu             not at all                     not at all

A link-local IPv6 address means something else on each machine, so it is not announced.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .records import Entry

_tcp = re.compile(r"tcp://(?:\[([^]]*)\]|([^:]*)):(\d+)").fullmatch


@dataclass(frozen=True, slots=True)
class Reach:
    """A way on which a process is heard.

    Attributes:
        view: its number in announcements, such as the system's number of the interface.
        addresses: of this machine on that way, IPv4 and IPv6, the best first.
        loopback: whoever hears it is on this machine.
    """

    view: int
    addresses: tuple[str, ...]
    loopback: bool = False


INSIDE = Reach(0, ("127.0.0.1", "::1"), True)
"""What is said inside this machine."""

REGISTRY_VIEW = 65_535
"""The number of what goes by way of a registry."""


def seen_from(endpoints: Iterable[str], reach: Reach) -> tuple[str, ...]:
    """The endpoints to announce for bound ones, in their order, each once.

    Args:
        endpoints: that an agent has bound.
        reach: on which way they are announced.
    """
    return tuple(dict.fromkeys(address for endpoint in endpoints for address in _seen(endpoint, reach)))


def as_seen_here(entry: Entry) -> Entry:
    """An entry with bound endpoints, with those to be used in this process."""
    return replace(entry, addresses=_inside(entry.addresses), pub_addresses=_inside(entry.pub_addresses))


def _inside(endpoints: Sequence[str]) -> tuple[str, ...]:
    inside = (endpoint for endpoint in endpoints if endpoint.startswith("inproc://"))
    return (*inside, *seen_from(endpoints, INSIDE))


def _seen(endpoint: str, reach: Reach) -> list[str]:
    if endpoint.startswith("ipc://"):
        return [endpoint] if reach.loopback else []
    found = _tcp(endpoint)
    if found is None:
        return []
    host, port = found[1] or found[2], found[3]
    if host in ("*", "0.0.0.0", "::"):
        return _all_addresses(host, port, reach)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return [] if host == "localhost" and not reach.loopback else [endpoint]
    if reach.loopback:
        return [endpoint]
    return [endpoint] if not address.is_loopback and _has(reach, address) else []


def _all_addresses(host: str, port: str, reach: Reach) -> list[str]:
    addresses = [ipaddress.ip_address(address) for address in reach.addresses if "%" not in address]
    usable = [a for a in addresses if not (a.version == 6 and (host != "::" or a.is_link_local))]
    return [f"tcp://{a}:{port}" if a.version == 4 else f"tcp://[{a}]:{port}" for a in usable]


def _has(reach: Reach, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return any("%" not in own and ipaddress.ip_address(own) == address for own in reach.addresses)
