"""Interfaces: through which network interfaces this machine can be reached, and at which addresses.

They are asked of the C library (``getifaddrs``: Linux, macOS and the BSDs). Where it has no such function,
loopback, the addresses of the machine's own name, and what can be bound are all that is known.
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..protocol.errors import ConfigError
from .reach import INSIDE, REGISTRY_VIEW, Reach

_UP = 0x1
_LOOPBACK = 0x8
_LINUX = sys.platform == "linux"


@dataclass(frozen=True)
class Interface:
    """One IPv4 address of an interface that is up.

    Attributes:
        name: such as ``eth0``.
        index: the system's number of the interface; 0 when it told none.
        address: dotted IPv4 address.
        loopback: leads to this machine only.
        ipv6: addresses of the same interface, link-local ones with their ``%scope``.
    """

    name: str
    index: int
    address: str
    loopback: bool
    ipv6: tuple[str, ...] = ()

    @property
    def view(self) -> int:
        """The number by which others tell this process's interfaces apart."""
        return 0 if self.loopback else self.index or 1


LOOPBACK = Interface("lo", 0, "127.0.0.1", True)
"""What every machine has, whatever it tells."""


@dataclass
class _Found:
    """What was told of one interface."""

    up: bool = False
    loopback: bool = False
    ipv4: list[str] = field(default_factory=list)
    ipv6: list[str] = field(default_factory=list)


class _SockAddr(ctypes.Structure):
    # The BSDs, and macOS, begin with a byte of length.
    _fields_ = (
        [("family", ctypes.c_ushort)] if _LINUX else [("length", ctypes.c_ubyte), ("family", ctypes.c_ubyte)]
    )


class _IfAddrs(ctypes.Structure):
    pass


_IfAddrs._fields_ = [
    ("next", ctypes.POINTER(_IfAddrs)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.POINTER(_SockAddr)),
]


def interfaces() -> list[Interface]:
    """Every IPv4 address of the machine whose interface is up, loopback first.

    An interface with IPv6 only is left out: discovery speaks IPv4 multicast.
    """
    found: dict[str, _Found] = {}
    try:
        for name, flags, address in _told():
            _take(found.setdefault(name, _Found()), flags, address)
    except (OSError, AttributeError, TypeError):  # no C library without a name, or none with that function
        return _by_host_name()
    known = [
        Interface(name, _index(name), address, each.loopback, tuple(each.ipv6))
        for name, each in found.items()
        if each.up
        for address in each.ipv4
    ]
    return sorted(known, key=lambda interface: not interface.loopback) or [LOOPBACK]


def chosen(address: str | None, known: Sequence[Interface] | None = None) -> list[Interface]:
    """The interfaces to be used: all, or the one with an address.

    Args:
        address: IPv4 address of an interface (``PZC_IP``), None for all.
        known: what there is; default `interfaces`.

    Raises:
        ConfigError: when no interface that is up has the address; it names those that are.
    """
    known = interfaces() if known is None else known
    if address is None:
        return list(known)
    fitting = [interface for interface in known if interface.address == address]
    if fitting:
        return fitting[:1]
    if ipaddress.ip_address(address).is_loopback:
        return [Interface("lo", 0, address, True)]
    if not any(each.index for each in known) and _can_be_bound(address):
        return [Interface(address, 0, address, False)]
    there = ", ".join(f"{interface.address} ({interface.name})" for interface in known)
    raise ConfigError(f"PZC_IP={address}: no interface of this machine that is up has it; there are {there}")


def _can_be_bound(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def everywhere(known: Sequence[Interface]) -> Reach:
    """Every address at which other machines may reach this process."""
    return _reach(REGISTRY_VIEW, [each for each in known if not each.loopback])


def reach_of(view: int, known: Sequence[Interface]) -> Reach:
    """The addresses at which this process is reached by those that it is heard by on an interface."""
    return _reach(view, [each for each in known if each.view == view]) if view else INSIDE


def _reach(view: int, here: Sequence[Interface]) -> Reach:
    ipv6 = (text for each in here for text in each.ipv6 if "%" not in text)
    return Reach(view, tuple(dict.fromkeys((*(each.address for each in here), *ipv6))))


def _take(found: _Found, flags: int, address: bytes) -> None:
    found.up, found.loopback = bool(flags & _UP), bool(flags & _LOOPBACK)
    if len(address) == 4:
        found.ipv4.append(socket.inet_ntoa(address))
    elif len(address) > 16:
        text = socket.inet_ntop(socket.AF_INET6, address[:16])
        scope = int.from_bytes(address[16:], sys.byteorder)
        found.ipv6.append(f"{text}%{scope}" if scope else text)


def _told() -> Iterator[tuple[str, int, bytes]]:
    """Name, flags and address of each entry of ``getifaddrs``; empty bytes for none."""
    library = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_IfAddrs)()
    if library.getifaddrs(ctypes.byref(first)):
        raise OSError(ctypes.get_errno(), "getifaddrs failed")
    try:
        entry = first
        while entry:
            told = entry.contents
            yield told.name.decode(errors="replace"), told.flags, _bytes(told.address)
            entry = told.next
    finally:
        library.freeifaddrs(first)


def _bytes(address: Any) -> bytes:
    """Four bytes of IPv4; of IPv6 sixteen and the scope; nothing for anything else."""
    if not address:
        return b""
    at = ctypes.addressof(address.contents)
    if address.contents.family == socket.AF_INET:
        return ctypes.string_at(at + 4, 4)
    if address.contents.family == socket.AF_INET6:
        return ctypes.string_at(at + 8, 20)
    return b""


def _index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0


def _by_host_name() -> list[Interface]:
    try:
        told = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET, socket.SOCK_DGRAM)
    except OSError:
        told = []
    addresses = {str(address[0]) for *_, address in told} - {LOOPBACK.address}
    return [LOOPBACK, *(Interface(address, 0, address, False) for address in sorted(addresses))]
