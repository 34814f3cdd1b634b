"""Takes away what other systems do not have, before anything else is imported.

A process that is started with this folder on ``PYTHONPATH`` lacks what ``TESTS_WITHOUT`` names::

    memfd    shared memory without a name           macOS, Windows
    pidfd    news of the end of another process     macOS, Windows
    unix     Unix sockets that tell their user      Windows; macOS has them, without abstract names
    fork     processes that are copies              Windows
    posix    fcntl, termios, poll, epoll, user ids  Windows
"""

import os
import select
import socket
import sys

WITHOUT = set(os.environ.get("TESTS_WITHOUT", "").split(","))
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEPT = {name: getattr(os, name) for name in ("fork", "pidfd_open")}


def kept(name: str) -> object:
    """What was taken from ``os``, for the tests themselves: they start processes and wait for their end by it."""
    if name in KEPT and sys._getframe(1).f_code.co_filename.startswith(TESTS):
        return KEPT[name]
    raise AttributeError(f"module 'os' has no attribute {name!r}")


os.__dict__["__getattr__"] = kept
if "memfd" in WITHOUT:
    del os.memfd_create
if "pidfd" in WITHOUT:
    del os.pidfd_open
if "unix" in WITHOUT:
    del socket.SO_PEERCRED
if "fork" in WITHOUT:
    del os.fork, os.register_at_fork
if "posix" in WITHOUT:
    sys.modules["fcntl"] = sys.modules["termios"] = None  # type: ignore[assignment]
    del select.poll, select.epoll, os.geteuid
