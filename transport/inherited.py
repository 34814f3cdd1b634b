"""Inherited: what a forked child has of its parent's connections, and must not keep.

A peer learns at once that a process has died, because the kernel closes its sockets; but only with the last
copy of each, and a child that was forked has copies. So it closes them before it does anything else:

- connections and listening sockets of the fast lane, which are known here, or have its name
- files that it holds locked
- listening sockets and connections of libzmq at an endpoint of the parent, which would also keep its port

The parent's stay as they are: to close a copy ends nothing. Without ``/proc`` the last ones stay open.
A fork waits until what is being opened is known here: its copy would get its name with the parent's.
"""

from __future__ import annotations

import contextlib
import os
import socket as sockets
import weakref
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import zmq

from ..protocol.errors import AgentClosed
from .tables import Table, unforked

LANE = b"\0pzc/"
"""How the names of the sockets of the fast lane begin, in the abstract space."""

_DESCRIPTORS = "/proc/self/fd"


T = TypeVar("T")


class _Inherited(Table):
    """Sockets and locks of this process, and how often it is a fork of a fork of the first one."""

    forks = 0

    def begin(self) -> None:
        super().begin()
        self.known: weakref.WeakSet[Any] = weakref.WeakSet()
        self.bound: weakref.WeakKeyDictionary[zmq.Socket[bytes], str] = weakref.WeakKeyDictionary()

    def forget(self) -> None:
        self.forks += 1  # first: what is closed here may only let go of its copy
        for opened in list(self.known):
            with contextlib.suppress(OSError):
                opened.close()
        ports = {_port(endpoint) for socket, endpoint in list(self.bound.items()) if not socket.closed} - {0}
        try:
            numbers = [int(name) for name in os.listdir(_DESCRIPTORS)]
            nothing = os.open(os.devnull, os.O_RDONLY)
        except OSError:  # another system, or no descriptor is left to read it with
            return
        for number in numbers:
            with contextlib.suppress(OSError):  # that one was closed by now
                if os.readlink(f"{_DESCRIPTORS}/{number}").startswith("socket:"):
                    _close_copy(number, ports, nothing)
        os.close(nothing)


_inherited = _Inherited()


def forks() -> int:
    """How often this process is a fork of a fork of the first one, for `forked_since`."""
    return _inherited.forks


def forked_since(before: int) -> bool:
    """True in a child that was forked since `forks` gave that; cheaper than the process's number."""
    return _inherited.forks != before


def check_own(before: int, what: object) -> None:
    """AgentClosed when `forked_since`: locks of what is the parent's may be held for ever, and nothing comes.

    Args:
        before: as given by `forks` when it was made.
        what: it is.
    """
    if forked_since(before):
        raise AgentClosed(f"{what!r} belongs to the parent of this forked process: make a new one here")


class Stays:
    """What belongs to the process that made it, and can be neither pickled nor copied."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"this {type(self).__name__} stays in the process that made it: make one where it is needed, and "
            "send a Proxy, a name or an endpoint"
        )


def mine(opened: Callable[[], T]) -> T:
    """Open a socket or file, without waiting, that is closed in forked children; errors as ``opened``."""
    with unforked:
        made = opened()
        _inherited.known.add(made)
        return made


def bound(socket: zmq.Socket[bytes], bind: Callable[[], str]) -> str:
    """Bind a socket, without waiting, and have what libzmq opens at its endpoint closed in forked children.

    Args:
        socket: of libzmq.
        bind: does it, and returns the endpoint; errors as it.
    """
    with unforked:
        endpoint = _inherited.bound[socket] = bind()
        return endpoint


def _close_copy(number: int, ports: set[int], nothing: int) -> None:
    """Close a descriptor if it is of a lane or port of the parent; ``nothing`` is one of no use."""
    socket = sockets.socket(fileno=number)
    try:
        if socket.family == sockets.AF_UNIX:
            if any(_is_of_lane(name) for name in (_name(socket.getsockname), _name(socket.getpeername))):
                os.dup2(nothing, number, inheritable=False)  # the lane in C has the number, and closes it
        elif socket.family in (sockets.AF_INET, sockets.AF_INET6):
            name = _name(socket.getsockname)
            if isinstance(name, tuple) and name[1] in ports:
                os.close(number)
    finally:
        socket.detach()


def _name(of: Callable[[], object]) -> object:
    try:
        return of()
    except OSError:  # nobody is at the other end
        return None


def _is_of_lane(name: object) -> bool:
    return isinstance(name, bytes) and name.startswith(LANE)


def _port(endpoint: str) -> int:
    port = endpoint.rpartition(":")[2]
    return int(port) if endpoint.startswith("tcp://") and port.isdecimal() else 0
