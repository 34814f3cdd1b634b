"""Endpoints: what they may look like, binding them, and what to say when that fails."""

from __future__ import annotations

import errno
import ipaddress
import itertools
import logging
import os
import re
import socket as stdlib_socket
import stat
import struct
from functools import partial
from typing import Any, NamedTuple, cast

import zmq

from ..protocol import limits
from ..protocol.errors import BindError, ConfigError, PeerLost
from ..protocol.frames import MAX_CONTENT, MAX_HEADER
from . import families, inherited
from .descriptors import require
from .peer import Peer

logger = logging.getLogger("pzc.endpoints")

RANDOM_TCP = "tcp://127.0.0.1:0"
"""Any free TCP port on loopback."""

DECODE_LATER = 1 << 16
"""Contents above this many bytes are decoded by the lane, so that they do not hold up the rest."""

WARM_BUFFER = 512 << 10
"""Bytes that the kernel holds in each direction of a connection for calls within this host."""

MAX_NAMED = 300
"""Longest endpoint, in characters, by which somebody says that he reached this one."""

_TO_BIND = 4  # descriptors that libzmq needs for that, at most

# A '+' would end the sender in a header.
_USABLE = re.compile(r"tcp://[^+]+:(\*|(?P<port>\d{1,5}))|(ipc|inproc)://[^+]+")
_NEARLY = re.compile(r"(?:tcp:/*)?(?:([^/:+]+):)?(\d{1,5})")
_LAST_PORT = 65_535
_EVENT = struct.Struct("=hi")
_KEEP_ALIVE = (
    (zmq.TCP_KEEPALIVE, 1), (zmq.TCP_KEEPALIVE_IDLE, 2), (zmq.TCP_KEEPALIVE_INTVL, 1),
    (zmq.TCP_KEEPALIVE_CNT, 2), (zmq.TCP_MAXRT, 4000),
)  # fmt: skip
"""A vanished host is noticed after about 4 s by TCP's own means.

Not by libzmq's heartbeats: with them a peer that breaks off, while so much of it waits here that reading has
stopped, ends the whole process (``Assertion failed: !_io_error``, seen with 4.3.5).
"""

_warned: set[str] = set()
_monitors = itertools.count(1)


def reached_here(endpoint: str) -> str:
    """Where this machine reaches what is bound to a TCP endpoint; empty when its port is not known yet."""
    host, port = split(endpoint)
    if port in ("", "0", "*"):
        return ""
    return f"tcp://{'127.0.0.1' if host in ('*', '0.0.0.0', '[::]') else host}:{port}"


def check(endpoint: str) -> str:
    """Return the endpoint when it can be used.

    Raises:
        ConfigError: saying what an endpoint looks like.
    """
    given = cast("object", endpoint)
    found = _USABLE.fullmatch(given) if isinstance(given, str) else None
    if found is None or int(found["port"] or 0) > _LAST_PORT or not _is_host(split(endpoint)[0]):
        near = ""
        if isinstance(given, str):
            near = f", perhaps {meant(given)}" if meant(given) else ""
            if given.isidentifier():  # in the place of an endpoint
                near = f"; what it is called is given as name={given!r}"
        raise ConfigError(
            f"{endpoint!r} is not an endpoint{near}; expected tcp://ADDRESS:PORT with a port up to 65535, "
            "ipc://PATH or inproc://NAME, without '+'; an IPv6 address stands in brackets: tcp://[fd00::1]:5555"
        )
    return endpoint


def meant(written: str) -> str:
    """The endpoint that whoever wrote a port, or an address with one, may have meant; empty for none."""
    found = _NEARLY.fullmatch(written)
    usable = found is not None and int(found[2]) <= _LAST_PORT
    return f"tcp://{found[1] or '127.0.0.1'}:{found[2]}" if found and usable else ""


def _is_host(host: str) -> bool:
    if host.startswith("["):
        address = _address(host)
        return address is not None and address.version == 6 and host.endswith("]")
    return host.count(":") < 2 or _address(f"[{host}]") is None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is written as; IPv4 inside IPv6 as IPv4; None for a name."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def address_of(endpoint: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address in a tcp endpoint; None for a host name, a wildcard or another kind of endpoint."""
    return _address(split(endpoint)[0])


def split(endpoint: str) -> tuple[str, str]:
    """Host (an IPv6 address in its brackets) and port of a tcp endpoint; two empty texts for any other."""
    if not endpoint.startswith("tcp://"):
        return "", ""
    host, _, port = endpoint[6:].rpartition(":")
    return host, port


def is_wildcard(endpoint: str) -> bool:
    """True for a tcp endpoint that stands for every interface of its machine, and names none."""
    host, _ = split(endpoint)
    address = _address(host)
    return host == "*" or (address is not None and address.is_unspecified)


def at_port_of(endpoint: str, other: str) -> bool:
    """True when another text is a usable tcp endpoint of the same port as an endpoint."""
    port = split(endpoint)[1]
    same = bool(port) and split(other)[1] == port and len(other) <= MAX_NAMED
    return same and other.isascii() and other.isprintable() and _USABLE.fullmatch(other) is not None


def beside(endpoint: str) -> str:
    """Where to publish, when nobody says so: where whoever reaches the REP endpoint can reach it as well."""
    host, _ = split(endpoint)
    return f"tcp://{host}:0" if host else RANDOM_TCP


def is_named(endpoint: str) -> bool:
    """True for a tcp endpoint with a host name, which has to be looked up."""
    host, port = split(endpoint)
    return bool(host) and host != "*" and port.isdecimal() and _address(host) is None


def connect(socket: zmq.Socket[bytes], endpoint: str) -> str:
    """Connect to one more endpoint, IPv4 or IPv6; zmq.ZMQError when that cannot be used.

    Returns:
        What `disconnect` needs: where its host name leads to.
    """
    place = families.place(endpoint)
    _set_family(socket, place.startswith("tcp://["))
    socket.connect(place)
    return place


def disconnect(socket: zmq.Socket[bytes], place: str) -> None:
    """Leave an endpoint, as `connect` returned it."""
    _set_family(socket, place.startswith("tcp://["))
    socket.disconnect(place)


def _set_family(socket: zmq.Socket[bytes], ipv6: bool) -> None:
    # Only where it has to be: with it, libzmq tells addresses of IPv4 in another form. It counts from now on.
    socket.setsockopt(zmq.IPV6, ipv6)


def new_socket(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    """A socket with this project's bounds: marks, message size, keepalive, no linger.

    Raises:
        PeerLost: when no descriptor is left for it; BindError instead for one that is to be bound.
    """
    try:
        socket = context.socket(kind)
    except zmq.ZMQError as exc:
        raise _scarce(kind, exc) from exc
    # Whoever connects to this agent is anybody, and sends XPUB filters only; whom it connects to was chosen.
    own = {int(zmq.ROUTER): limits.current.frame_bytes, int(zmq.XPUB): MAX_HEADER + 1}
    for option, value in (
        (zmq.SNDHWM, limits.current.high_water_mark),
        (zmq.RCVHWM, limits.current.high_water_mark),
        (zmq.LINGER, 0),
        (zmq.MAXMSGSIZE, own.get(kind, MAX_CONTENT)),
        (zmq.HANDSHAKE_IVL, int(limits.current.handshake * 1000)),
        (zmq.RECONNECT_IVL, 50),
        (zmq.RECONNECT_IVL_MAX, 1000),
        *_KEEP_ALIVE,
    ):
        socket.setsockopt(option, value)
    return socket


def new_monitor(socket: zmq.Socket[bytes], events: int) -> zmq.Socket[bytes]:
    """What tells events of a socket; errors as `new_socket`, and then the socket is closed."""
    kind = int(socket.getsockopt(zmq.TYPE))
    try:
        # Not its own choice, the number of the socket: another monitor may have that address a while longer.
        return socket.get_monitor_socket(events, f"inproc://pzc.monitor.{next(_monitors)}")
    except zmq.ZMQError as exc:
        socket.close(0)
        raise _scarce(kind, exc) from exc


class Told(NamedTuple):
    """One event of a monitored socket.

    Attributes:
        event: a bit of ``zmq.Event``.
        value: a descriptor or an error number.
        endpoint: whose connection it is about.
    """

    event: int
    value: int
    endpoint: bytes


def receive_event(monitor: Any, flags: int = 0) -> Told:
    """The next event; waits for one unless the flags say otherwise.

    Raises:
        zmq.Again: there is none, with ``zmq.NOBLOCK``.
    """
    # pyzmq's own reader brings asyncio along.
    numbers, endpoint = monitor.recv_multipart(flags)
    event, value = _EVENT.unpack(numbers)
    return Told(event, value, endpoint)


def _scarce(kind: int, error: zmq.ZMQError) -> PeerLost | BindError:
    text = f"no socket can be opened here: {error}; close what is not needed, or raise the limit (ulimit -n)"
    return BindError(text) if kind in (zmq.ROUTER, zmq.XPUB) else PeerLost(text)


def stay_in_cache(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Let large messages within this host pass through memory that stays in the processor's cache.

    Before the socket connects or binds. Between hosts the kernel finds out how much is worth its while;
    on loopback that grows to megabytes, and each message goes through memory twice more.
    """
    if is_loopback(endpoint):
        socket.setsockopt(zmq.SNDBUF, WARM_BUFFER)
        socket.setsockopt(zmq.RCVBUF, WARM_BUFFER)


def bind(socket: zmq.Socket[bytes], endpoint: str) -> str:
    """Bind and return the endpoint with its real port.

    Raises:
        ConfigError: when it is no endpoint.
        BindError: naming the endpoint and the reason.
    """
    check(endpoint)
    if endpoint.startswith("ipc://") and _is_taken(endpoint[6:]):
        raise BindError(f"cannot bind {endpoint}: address already in use{advice(errno.EADDRINUSE, endpoint)}")
    _set_family(socket, endpoint.startswith("tcp://["))
    try:
        require(_TO_BIND)
        return inherited.bound(socket, partial(_bind, socket, endpoint))
    except (OSError, zmq.ZMQError) as exc:
        reason = zmq.strerror(exc.errno or 0).lower()
        raise BindError(f"cannot bind {endpoint}: {reason}{advice(exc.errno, endpoint)}") from exc


def _bind(socket: zmq.Socket[bytes], endpoint: str) -> str:
    free = endpoint.startswith("tcp://") and endpoint.endswith(":0")
    socket.bind(endpoint[:-1] + "*" if free else endpoint)
    return endpoint if endpoint.startswith("inproc://") else socket.getsockopt_string(zmq.LAST_ENDPOINT)


def _is_taken(path: str) -> bool:
    # libzmq would unlink another agent's path, or any file, and take its place without a word.
    if not hasattr(stdlib_socket, "AF_UNIX"):
        return False
    if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
        return True
    with stdlib_socket.socket(stdlib_socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(f"\0{path[1:]}" if path.startswith("@") else path)
        except (BlockingIOError, PermissionError):  # many wait to be taken; it is another user's
            return True
        except OSError:
            return False
    return True


def advice(code: int | None, endpoint: str) -> str:
    """What to do about an endpoint that cannot be bound, for the end of the message."""
    if code == errno.EADDRINUSE and endpoint.startswith("ipc://"):
        return "; another program, a file or a user has that path: stop it, remove it, or name another one"
    if code == errno.EADDRINUSE:
        return "; another program uses it, or an agent of this one: stop that, or bind port 0 for a free one"
    if code in (errno.ENODEV, errno.EADDRNOTAVAIL):
        return "; no interface of this machine has that address"
    if code in (errno.EMFILE, errno.ENFILE):
        return "; close what is not needed, or raise the limit (ulimit -n)"
    return ""


def is_loopback(endpoint: str) -> bool:
    """True when only this machine can reach the endpoint."""
    if not endpoint.startswith("tcp://"):
        return True
    host, _ = split(endpoint)
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def warn_unsigned(endpoint: str) -> None:
    """Warn, once per endpoint, that anybody on the network can use an agent without key."""
    if is_loopback(endpoint) or endpoint in _warned:
        return
    _warned.add(endpoint)
    logger.warning(
        "%s is reachable from the network and this agent has no key: anybody there can call it. "
        "Set PZC_KEY on both sides, or bind 127.0.0.1",
        endpoint,
    )


def is_direct(peer: Peer) -> bool:
    """True when a peer was reached at its own port, not at that of a forwarder, whose way is respected."""
    own, reached = str(peer.details.get("rep_endpoint")), peer.endpoint
    _, port = split(own)
    return own == reached or (bool(port) and port == split(reached)[1])
