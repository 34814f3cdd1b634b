"""What this machine offers. Whatever depends on the system is decided here, once, by what is there.

::

    name     what                                                 Linux  macOS  Windows
    MEMORY   shared memory without a name, sealed                 yes    no     no
    LANE     Unix sockets that tell their user, without a file    yes    no     no
    ENDINGS  news of the end of another process                   yes    no     no
    FORKS    processes that begin as copies                       yes    yes    no
    PIPES    a pipe can be waited for as a socket can             yes    yes    no

What is missing costs speed, not function: calls and notifications take TCP, and silence tells who has ended.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from importlib.util import find_spec


def _has_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # it was taken away
        return False


_CONTROL = _has_module("fcntl") and _has_module("termios")

MEMORY = sys.platform == "linux" and hasattr(os, "memfd_create") and _CONTROL
LANE = (
    sys.platform == "linux"
    and all(hasattr(socket, name) for name in ("AF_UNIX", "SO_PEERCRED"))
    and all(hasattr(select, name) for name in ("poll", "epoll"))
    and hasattr(os, "geteuid")
    and _CONTROL
)
ENDINGS = hasattr(os, "pidfd_open") and hasattr(select, "poll")
FORKS = hasattr(os, "fork")
PIPES = hasattr(os, "geteuid")
