"""Multicast: the UDP sockets by which processes of a network tell each other who is there.

==========  ======================================  ===============================================
socket      bound to                                for
==========  ======================================  ===============================================
group       the group and its port, shared          what others send to everybody
relay       the port alone, shared                  what a host sends to this one alone: of several
                                                    processes on a host, one gets it
own         any free port                           everything that is sent, and answers to it
patient     as the group                            what others send to everybody and may wait; only
                                                    where the kernel can tell it from the rest
==========  ======================================  ===============================================

A datagram on an interface that was not chosen is not read. One that cannot be sent is counted, and why.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import socket
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..protocol.errors import BindError
from .interfaces import Interface

_SO_ATTACH_FILTER = 26
_UDP_HEADER = 8
_LENGTH, _BYTE, _GREATER, _EQUAL, _RETURN = 0x80, 0x30, 0x25, 0x15, 0x06
_ALL, _NOTHING = 0xFFFF, 0
_instruction = struct.Struct("=HBBI").pack


@dataclass(frozen=True, slots=True)
class Mark:
    """By what datagrams are told apart.

    Attributes:
        offset: of the byte in the datagram.
        value: that the byte has in those that are marked.
    """

    offset: int
    value: int


def attach(to: socket.socket, mark: Mark, *, marked: bool) -> bool:
    """Let a socket have only the marked datagrams, or only the others; False where that cannot be done.

    A filter in the kernel looks at one byte of the datagram, in the classic form that Linux attaches to a
    socket::

        0  A = length, the UDP header of 8 bytes included
        1  if A > 8 + offset: 2, else 4
        2  A = byte at 8 + offset
        3  if A = value: ``found``, else ``other``
        4  other
        5  found
    """
    if sys.platform != "linux":
        return False
    found, other = (_ALL, _NOTHING) if marked else (_NOTHING, _ALL)
    program = b"".join((
        _instruction(_LENGTH, 0, 0, 0),
        _instruction(_GREATER, 0, 2, _UDP_HEADER + mark.offset),
        _instruction(_BYTE, 0, 0, _UDP_HEADER + mark.offset),
        _instruction(_EQUAL, 1, 0, mark.value),
        _instruction(_RETURN, 0, 0, other),
        _instruction(_RETURN, 0, 0, found),
    ))  # fmt: skip
    kept = ctypes.create_string_buffer(program)  # the kernel copies it
    try:
        to.setsockopt(
            socket.SOL_SOCKET,
            _SO_ATTACH_FILTER,
            struct.pack("@HP", len(program) // 8, ctypes.addressof(kept)),
        )
    except OSError:
        return False
    return True


logger = logging.getLogger("pzc.multicast")

LIMIT = 2048
"""Bytes that are read of a datagram; one that has more is malformed anyway."""

SKIPPED = 64
"""Datagrams of other interfaces that are skipped at once."""

Carrier = Literal["group", "relay", "own"]

_LINUX = sys.platform == "linux"
_IP_PKTINFO: int | None = getattr(socket, "IP_PKTINFO", {"linux": 8, "darwin": 26}.get(sys.platform))
_IP_MULTICAST_ALL = 49
_PKTINFO = struct.Struct("@I4s4s")
_SO_TIMESTAMP = 29
_TIMEVAL = struct.Struct("@ll")
_ROOM = (
    socket.CMSG_SPACE(_PKTINFO.size) + socket.CMSG_SPACE(_TIMEVAL.size)
    if hasattr(socket, "CMSG_SPACE")
    else 0
)


@dataclass(frozen=True, slots=True)
class Datagram:
    """What has arrived.

    Attributes:
        data: its bytes, at most `LIMIT`.
        interface: on which it came.
        source: address and port of the sender.
        carrier: socket at which it came: ``group``, ``relay`` or ``own``.
        at: Unix seconds at which it arrived, for what has waited; else 0.
    """

    data: bytes
    interface: Interface
    source: tuple[str, int]
    carrier: Carrier
    at: float = 0.0


class Multicast:
    """Sends to a group and hears it, on some interfaces; one thread at a time, and no call blocks.

    Args:
        group: IPv4 multicast address.
        port: of the group.
        interfaces: where to send and to listen; at least one.
        patient: the mark of datagrams that nobody has to hear at once; None for none.

    Attributes:
        interfaces: those that could be joined.
        sent: datagrams that were sent.
        failed: datagrams that could not be sent, or interfaces that could not be joined.
        patient: file descriptor of what may wait; None when it arrives with the rest.
        problems: the last reason by interface name; of one that works again, none.

    Raises:
        BindError: when no interface can be used; says why.
    """

    def __init__(
        self, group: str, port: int, interfaces: Sequence[Interface], patient: Mark | None = None
    ) -> None:
        self.group = group
        self.port = port
        self.sent = self.failed = 0
        self.problems: dict[str, str] = {}
        self._sockets: dict[int, tuple[socket.socket, Carrier]] = {}
        self.patient: int | None = None
        local = all(interface.loopback for interface in interfaces)
        alone = interfaces[0].address if local or len(interfaces) == 1 else ""
        try:
            at = (group if _LINUX or sys.platform == "darwin" else "", port)
            heard = self._open(at, "group")
            self.interfaces = [each for each in interfaces if self._join(heard, each)]
            if not self.interfaces:
                why = "; ".join(f"{name}: {reason}" for name, reason in self.problems.items())
                raise BindError(f"cannot listen to {group}:{port} on any interface: {why}")
            self._open((alone, port), "relay")
            self._own = self._open((alone, 0), "own")
            if patient is not None and _LINUX:
                self._open_patient(at, patient, heard)
        except OSError as exc:
            self.close()
            if isinstance(exc, BindError):
                raise
            raise BindError(f"cannot listen to {group}:{port}: {exc.strerror or exc}{_advice(exc)}") from exc
        self._by_index = {each.index: each for each in reversed(self.interfaces) if each.index}

    def _open(self, address: tuple[str, int], carrier: Carrier) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sockets[made.fileno()] = made, carrier
        made.setblocking(False)
        if carrier != "own":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if not _LINUX and hasattr(socket, "SO_REUSEPORT"):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if _LINUX:
            made.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        if _IP_PKTINFO is not None:
            with contextlib.suppress(OSError):
                made.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        made.bind(address)
        return made

    def _open_patient(self, at: tuple[str, int], mark: Mark, other: socket.socket) -> None:
        made = self._open(at, "group")
        made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMP, 1)
        if (
            attach(made, mark, marked=True)
            and all(self._join(made, each) for each in self.interfaces)
            # For a moment both have it; what comes twice changes nothing.
            and attach(other, mark, marked=False)
        ):
            self.patient = made.fileno()
            return
        del self._sockets[made.fileno()]
        made.close()

    def _join(self, to: socket.socket, interface: Interface) -> bool:
        try:
            to.setsockopt(
                socket.IPPROTO_IP,
                socket.IP_ADD_MEMBERSHIP,
                socket.inet_aton(self.group) + _numbered(interface),
            )
        except OSError as exc:
            if exc.errno == errno.EADDRINUSE:  # two addresses of one interface
                return True
            self._fail(interface, exc)
            return False
        return True

    def filenos(self) -> list[int]:
        """File descriptors that are readable when something has arrived that may not wait."""
        return [fileno for fileno in self._sockets if fileno != self.patient]

    def send(self, data: bytes, interface: Interface) -> bool:
        """Send to everybody on one interface; False, and counted, when that was not possible."""
        try:
            own = self._own
            own.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, _chosen(interface))
            # It reaches this machine's own processes whatever the number of hops is.
            own.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0 if interface.loopback else 1)
            own.sendto(data, (self.group, self.port))
        except OSError as exc:
            self._fail(interface, exc)
            return False
        self.problems.pop(interface.name, None)
        self.sent += 1
        return True

    def send_to(self, data: bytes, address: tuple[str, int]) -> bool:
        """Send to one address; False, and counted, when that was not possible."""
        try:
            self._own.sendto(data, address)
        except OSError:
            self.failed += 1
            return False
        self.sent += 1
        return True

    def _fail(self, interface: Interface, error: OSError) -> None:
        self.failed += 1
        reason = error.strerror or str(error)
        if self.problems.get(interface.name) != reason:
            self.problems[interface.name] = reason
            logger.info(
                "multicast %s:%s cannot be used on %s: %s", self.group, self.port, interface.name, reason
            )

    def receive(self, fileno: int) -> Datagram | None:
        """What has arrived at one of `filenos`, or at `patient`; None when there is nothing more.

        What came on an interface that was not chosen is skipped, `SKIPPED` at a time: others have their turn.
        """
        for _ in range(SKIPPED):
            if fileno not in self._sockets:
                break
            arrived_at, carrier = self._sockets[fileno]
            try:
                if hasattr(arrived_at, "recvmsg"):
                    data, about, _, source = arrived_at.recvmsg(LIMIT, _ROOM)
                else:
                    data, source = arrived_at.recvfrom(LIMIT)
                    about = []
            except (BlockingIOError, InterruptedError):
                return None
            except OSError as exc:  # such as the refusal of a datagram that was sent before
                logger.debug("nothing could be received: %s", exc)
                self.failed += 1
                return None
            interface = self._interface(about)
            if interface is not None:
                return Datagram(data, interface, source, carrier, _arrival(about))
        return None

    def _interface(self, about: list[tuple[int, int, bytes]]) -> Interface | None:
        for level, kind, value in about:
            if level == socket.IPPROTO_IP and kind == _IP_PKTINFO and len(value) >= _PKTINFO.size:
                return self._by_index.get(_PKTINFO.unpack_from(value)[0])
        return self.interfaces[0] if len(self.interfaces) == 1 or not self._by_index else None

    def close(self) -> None:
        """Leave the group. Again: no effect."""
        for each, _ in self._sockets.values():
            each.close()
        self._sockets.clear()
        self.patient = None


def _arrival(about: list[tuple[int, int, bytes]]) -> float:
    for level, kind, value in about:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMP and len(value) >= _TIMEVAL.size:
            seconds, microseconds = _TIMEVAL.unpack_from(value)
            return seconds + microseconds / 1e6
    return 0.0


def _numbered(interface: Interface) -> bytes:
    """``ip_mreqn`` behind the group where it exists, else ``ip_mreq``."""
    address = socket.inet_aton(interface.address)
    return address + struct.pack("@i", interface.index) if _LINUX else address


def _chosen(interface: Interface) -> bytes:
    address = socket.inet_aton(interface.address)
    return bytes(4) + address + struct.pack("@i", interface.index) if _LINUX else address


def _advice(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "; a program that does not share the port uses it: stop that one, or set PZC_DISCOVERY_PORT"
    if error.errno == errno.EACCES:
        return "; ports below 1024 are reserved: set PZC_DISCOVERY_PORT to a higher one"
    return ""
