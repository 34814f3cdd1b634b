"""Site: where, and among whom, a process looks for others; and how that is written in settings."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from ..protocol.errors import ConfigError

GROUP = "239.255.80.90"
"""Default multicast group."""

PORT = 10_317
"""Default port of the group, and of relays."""

_REGISTRY = re.compile(r"tcp://[^+]+:\d{1,5}")
_RELAY = re.compile(r"(?P<host>[A-Za-z0-9._-]+)(:(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Site:
    """Processes with an equal partition, group and port, and a common key, find each other.

    Attributes:
        partition: whose names do not mix with those of others; empty for the common one.
        group: IPv4 multicast address; empty to use no multicast.
        port: of the group.
        address: IPv4 address of the one interface to use; None for all that are up.
        relays: hosts, and ports, that are told by unicast as well.
        registry: REP endpoint of a registry; empty for none.
    """

    partition: str = ""
    group: str = GROUP
    port: int = PORT
    address: str | None = None
    relays: tuple[tuple[str, int], ...] = ()
    registry: str = ""


def group(text: str) -> str:
    """An IPv4 multicast address, empty for ``off``; ValueError for anything else."""
    if text == "off":
        return ""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        address = None
    if address is None or not address.is_multicast:
        raise ValueError(
            f"expected an IPv4 multicast address (224.0.0.0 to 239.255.255.255), such as {GROUP}, or off"
        )
    return str(address)


def port(text: str) -> int:
    """A UDP port; ValueError for anything else."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:6]) < 65_536:
        raise ValueError(f"expected a port from 1 to 65535, such as {PORT}")
    return int(text)


def address(text: str) -> str | None:
    """The IPv4 address of an interface, None for an empty text; ValueError for anything else."""
    if not text:
        return None
    try:
        found = ipaddress.IPv4Address(text)
    except ValueError:
        found = None
    if found is None or found.is_multicast or found.is_unspecified:
        raise ValueError("expected the IPv4 address of one of this machine's interfaces, such as 10.0.0.7")
    return str(found)


def relays(text: str) -> tuple[tuple[str, int | None], ...]:
    """Hosts of ``HOST[:PORT],…`` and ports, None for that of the group; ValueError for anything else."""
    found: list[tuple[str, int | None]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        entry = _RELAY.fullmatch(part)
        if entry is None:
            raise ValueError(f"expected HOST or HOST:PORT, separated by commas, not {part!r}")
        found.append((entry["host"], None if entry["port"] is None else port(entry["port"])))
    return tuple(found)


def registry(text: str) -> str:
    """The REP endpoint of a registry, or empty; ValueError for anything else."""
    if text and _REGISTRY.fullmatch(text) is None:
        raise ValueError("expected the endpoint of a registry, such as tcp://10.0.0.2:10318")
    return text


_ENDPOINT = re.compile(r"(tcp|ipc|inproc)://.+")


def parse_peers(text: str) -> dict[str, str]:
    """Endpoints by name, which the deployment itself states: ``psu=tcp://10.0.0.7:5555,camera=...``.

    Raises:
        ConfigError: for an entry that is not ``name=endpoint``, or a name given twice.
    """
    peers: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, endpoint = (part.strip() for part in entry.partition("="))
        if not equals or not name or "://" in name or not _ENDPOINT.fullmatch(endpoint):
            raise ConfigError(
                f"PZC_PEERS entry {entry!r} is not name=endpoint, such as psu=tcp://10.0.0.7:5555"
            )
        if name in peers:
            raise ConfigError(f"PZC_PEERS names {name!r} twice: {peers[name]} and {endpoint}")
        peers[name] = endpoint
    return peers
