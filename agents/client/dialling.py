"""Dialling: which of an agent's addresses can be used from here.

A record lists every address of an agent; some are of networks that this machine is not in, or are behind a
firewall. So they are tried side by side, each begun `STAGGER` after the one before, in order of preference:

    state       event                                  next
    waiting     its turn; nobody else is expected      connecting
    connecting  refused, unreachable                   failed: the next one begins at once
    connecting  connected                              greeting: says who it is, as any socket of ZeroMQ
    greeting    said to be ready, as any such socket   answered: `meet` is asked, for at most `MEET_TIMEOUT`
    greeting    other bytes, or the end                failed
    answered    met                                    chosen; all others are given up
    answered    not who was expected, or silent        failed

An open port is no proof: a forwarder accepts for a host that is gone, and a private address may belong to
somebody else in every network. What is no IP address (``ipc://``, ``inproc://``, host names) is met at its
turn, without a connection beforehand. The addresses of a host name are tried on connecting (`settle`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket as sockets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import cast

from ...protocol.errors import CallTimeout, ConfigError, PeerLost, PzcError
from ...transport import endpoints, families
from ...transport.socket_type import GREETING, hello
from ...transport.tables import Table
from ...transport.threads import SLICE

STAGGER = 0.2
"""Seconds until the next address is tried beside those that have not answered."""

AT_ONCE = 8
"""Connections that are tried at the same time."""

MOST = 32
"""Addresses of one agent; those behind them are left out."""

MEET_TIMEOUT = 1.0
"""Seconds for the handshake at one address while there are others."""

SETTLE_TIMEOUT = 1.0
"""Seconds to look up anew a host name that is known, and again to find out which of its families answers."""

_SLICE = 0.1
"""Seconds after which a wait for a look-up, or until the next one, sees that it was closed."""

_HELLO = hello(b"DEALER")
"""Without it every try would be counted as a stranger's at the other end."""

_MOST_SAID = 1024
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR)

Meet = Callable[[str, float], object]
"""Shakes hands at an endpoint by a deadline in monotonic seconds; PzcError when that is not who is wanted."""


def dial(addresses: Iterable[str], timeout: float, meet: Meet | None = None) -> str:
    """The first of an agent's addresses that answers; any thread but that of the I/O.

    A single address is met without a connection beforehand; with no ``meet``, whoever uses it finds out.

    Args:
        addresses: endpoints in order of preference.
        timeout: seconds for all of it.
        meet: proves who answers, such as `expecting`; None takes whoever speaks ZeroMQ.

    Raises:
        ConfigError: when there is no address, or one that cannot be used.
        PeerLost: when none answers in time; it names each with its reason.
        PzcError: what ``meet`` raised, when somebody answered and refused, and nobody else did better.
    """
    candidates = [endpoints.check(address) for address in dict.fromkeys(addresses)][:MOST]
    if not candidates:
        raise ConfigError("an agent without any address cannot be dialled")
    deadline = time.monotonic() + timeout
    if len(candidates) == 1:
        if meet is not None:
            meet(candidates[0], deadline)
        return candidates[0]
    race = _Race(candidates, deadline)
    with contextlib.closing(race):
        for endpoint in race.answers():
            if meet is None or race.meets(endpoint, meet):
                return endpoint
    if race.refusal is not None:
        raise race.refusal
    told = "; ".join(f"{endpoint}: {race.reasons.get(endpoint, 'no answer')}" for endpoint in candidates)
    raise PeerLost(f"none of its addresses can be used from here within {timeout:g} s: {told}")


def settle(endpoint: str, deadline: float, closed: threading.Event) -> None:
    """Find out where a host name leads to somebody, unless that is known; any thread but the I/O's.

    Args:
        endpoint: of any kind; only that with a host name is looked at.
        deadline: in monotonic seconds. Of a name that has led somewhere, at most a second is taken; what is
            not known by then stays as it was.
        closed: ends the wait.
    """
    if not endpoints.is_named(endpoint) or families.is_settled(endpoint):
        return
    (host, port), patience = endpoints.split(endpoint), min(SETTLE_TIMEOUT, _left(deadline) / 4)
    until = deadline if families.place(endpoint) == endpoint else time.monotonic() + patience
    places: list[str] = []
    while not places:
        with contextlib.suppress(TimeoutError):
            places = _look_ups.of(host, int(port)).result(min(_SLICE, _left(until)))
        if not places and (not _left(until) or closed.wait(min(_SLICE, _left(until)))):
            return
    chosen = places[0]
    if len(places) > 1:
        with contextlib.suppress(PzcError):  # nobody is there yet
            chosen = dial(places, patience)
    families.learn(endpoint, chosen)


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())


class _LookUps(Table):
    """Look-ups of host names that are under way: one each, which may take long, for all who need it."""

    def begin(self) -> None:
        super().begin()
        self._under_way: dict[tuple[str, int], Future[list[str]]] = {}

    def of(self, host: str, port: int) -> Future[list[str]]:
        """An endpoint for each family of a host name; looked up here and now where no thread is left."""
        with self.lock:
            found = self._under_way.get((host, port))
            if found is not None:
                return found
            found = self._under_way[host, port] = Future[list[str]]()
        begun = partial(self._look_up, host, port, found)
        try:  # daemon: nothing else can end a look-up
            threading.Thread(target=begun, name="pzc-look-up", daemon=True).start()
        except RuntimeError:
            begun()
        return found

    def _look_up(self, host: str, port: int, found: Future[list[str]]) -> None:
        try:
            found.set_result(_look_up(host, port))
        finally:
            with self.lock:
                self._under_way.pop((host, port), None)


_look_ups = _LookUps()


def _look_up(host: str, port: int) -> list[str]:
    """An endpoint for each family of a host name; none when it is unknown."""
    places: dict[str, str] = {}
    with contextlib.suppress(OSError, UnicodeError):
        for family, *_, place in sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM):
            address = f"[{place[0]}]" if family == sockets.AF_INET6 else place[0]
            places.setdefault(str(family), f"tcp://{address}:{port}")
    return sorted(places.values(), key=lambda each: "[" in each)  # IPv4 first


def _verdict(heard: bytes) -> str | None:
    """What is wrong with the first bytes of a connection; empty for nothing, None when more are to come."""
    if heard[:1] != b"\xff" or len(heard) > _MOST_SAID:
        return "something else than an agent is there"
    greeting, command = heard[: len(GREETING)], heard[len(GREETING) :]
    if len(greeting) == len(GREETING) and greeting[12:32].rstrip(b"\0") != b"NULL":
        return ""  # it encrypts, and says no more to one who does not
    return "" if len(command) > 2 and len(command) >= 2 + command[1] else None


class _Race:
    """The connections of one `dial`.

    Args:
        candidates: endpoints in order of preference.
        deadline: of all of it, in monotonic seconds.

    Attributes:
        reasons: why an endpoint is out.
        refusal: of somebody who was met and is not to be talked to, such as with another key.
    """

    def __init__(self, candidates: list[str], deadline: float) -> None:
        self.reasons: dict[str, str] = {}
        self.refusal: PzcError | None = None
        self._deadline = deadline
        self._waiting = deque(candidates)
        self._answered: deque[str] = deque()
        self._selector = selectors.DefaultSelector()
        self._heard: dict[str, bytes] = {}
        self._next_turn = time.monotonic()

    def answers(self) -> Iterator[str]:
        """Each endpoint that answers, as soon as it does; ends when there are no more, or at the deadline."""
        while (now := time.monotonic()) < self._deadline:
            if self._answered:
                yield self._answered.popleft()
                continue
            open_now = len(self._selector.get_map())
            more = bool(self._waiting) and open_now < AT_ONCE
            if more and (now >= self._next_turn or not open_now):
                self._next_turn = now + STAGGER
                self._begin(self._waiting.popleft())
                continue
            if not open_now:
                return
            until = min(self._deadline, self._next_turn) if more else self._deadline
            for key, _ in self._selector.select(max(0.0, min(until - now, SLICE))):
                self._proceed(cast("sockets.socket", key.fileobj), key.data)

    def meets(self, endpoint: str, meet: Meet) -> bool:
        """Whether the handshake at an endpoint succeeds."""
        try:
            meet(endpoint, min(self._deadline, time.monotonic() + MEET_TIMEOUT))
        except PzcError as exc:
            self.reasons[endpoint] = str(exc)
            if not isinstance(exc, (PeerLost, CallTimeout)):
                self.refusal = exc
            return False
        return True

    def _begin(self, endpoint: str) -> None:
        host, port = endpoints.split(endpoint)
        address = endpoints.address_of(endpoint)
        if address is None or not port.isdecimal():
            self._answered.append(endpoint)
            return
        family = sockets.AF_INET6 if address.version == 6 else sockets.AF_INET
        try:
            [(*_, place), *_] = sockets.getaddrinfo(
                host.strip("[]"), int(port), family, sockets.SOCK_STREAM, 0, sockets.AI_NUMERICHOST
            )
            socket = sockets.socket(family, sockets.SOCK_STREAM)
        except OSError as exc:
            self._fail(endpoint, exc.strerror or str(exc))
            return
        socket.setblocking(False)
        code = socket.connect_ex(place)
        if code in _UNDER_WAY:
            self._selector.register(socket, selectors.EVENT_WRITE, endpoint)
        else:
            socket.close()
            self._fail(endpoint, os.strerror(code))

    def _proceed(self, socket: sockets.socket, endpoint: str) -> None:
        try:
            if self._selector.get_key(socket).events == selectors.EVENT_WRITE:
                code = socket.getsockopt(sockets.SOL_SOCKET, sockets.SO_ERROR)
                if code:
                    raise OSError(code, os.strerror(code))
                socket.send(_HELLO)  # the first bytes of a connection, for which there is room
                self._selector.modify(socket, selectors.EVENT_READ, endpoint)
                return
            said = socket.recv(_MOST_SAID)
        except OSError as exc:
            self._drop(socket)
            self._fail(endpoint, exc.strerror or str(exc))
            return
        heard = self._heard[endpoint] = self._heard.get(endpoint, b"") + said
        verdict = _verdict(heard) if said else "connected, then closed"
        if verdict is None:
            return
        self._drop(socket)
        if verdict:
            self._fail(endpoint, verdict)
        else:
            self._answered.append(endpoint)

    def _fail(self, endpoint: str, reason: str) -> None:
        self.reasons[endpoint] = reason.lower()
        self._next_turn = time.monotonic()

    def _drop(self, socket: sockets.socket) -> None:
        self._selector.unregister(socket)
        socket.close()

    def close(self) -> None:
        """Give up whatever is under way."""
        for key in list(self._selector.get_map().values()):
            self._drop(cast("sockets.socket", key.fileobj))
        self._selector.close()
