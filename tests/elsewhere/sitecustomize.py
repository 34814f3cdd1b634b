"""Takes away what other systems do not have, before anything else is imported.

A process that is started with this folder on ``PYTHONPATH`` lacks what ``TESTS_WITHOUT`` names::

    memfd    shared memory without a name           macOS, Windows
    pidfd    news of the end of another process     macOS, Windows
    unix     Unix sockets that tell their user      Windows; macOS has them, without abstract names
    fork     processes that are copies              Windows
    posix    what Python offers on POSIX only       Windows

The last one is taken from the package alone: Python's own library has other code for Windows, which cannot run here.
"""

import builtins
import ctypes
import mmap
import os
import select
import signal
import socket
import sys
import time
from functools import cache

WITHOUT = set(os.environ.get("TESTS_WITHOUT", "").split(","))
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)
BESIDE = tuple(os.path.join(ROOT, name) for name in ("tests", ".venv", ".nox", "examples", "benchmarks"))

EVERYWHERE = {
    "memfd": {os: "memfd_create"},
    "pidfd": {os: "pidfd_open"},
    "unix": {socket: "SO_PEERCRED"},
    "fork": {os: "fork register_at_fork"},
    "posix": {select: "poll epoll"},
}
"""What is taken from everybody but the tests, which start processes and wait for their end by it."""

HERE = {
    os: "chown fchmod fchown forkpty getegid geteuid getgid getgroups getloadavg getpgid getuid killpg mkfifo nice "
    "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK posix_fallocate pread preadv pwrite pwritev sched_getaffinity sendfile "
    "set_blocking setpgid setsid statvfs sysconf uname WNOHANG",
    socket: "AF_UNIX CMSG_LEN CMSG_SPACE MSG_CMSG_CLOEXEC MSG_DONTWAIT MSG_NOSIGNAL SCM_RIGHTS SO_PEERCRED SO_REUSEPORT "
    "recv_fds send_fds",
    select: "EPOLLIN EPOLLOUT POLLERR POLLHUP POLLIN POLLOUT POLLRDHUP",
    signal: "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 alarm pthread_kill "
    "pthread_sigmask setitimer sigwait",
    mmap: "MADV_DONTNEED MAP_PRIVATE MAP_SHARED PROT_READ PROT_WRITE",
    time: "clock_gettime pthread_getcpuclockid tzset CLOCK_BOOTTIME CLOCK_MONOTONIC CLOCK_REALTIME",
}
"""What posix takes from the package."""

MODULES = ("grp", "pty", "pwd", "resource", "syslog", "tty")


@cache
def is_product(file: str) -> bool:
    """Whether code of the package asks."""
    return file.startswith(ROOT) and not file.startswith(BESIDE)


def hide(module, everywhere, here):
    """Let a module have these for some only."""
    kept = {name: vars(module).pop(name) for name in everywhere + here if name in vars(module)}

    def find(name):
        file = sys._getframe(1).f_code.co_filename
        if name in kept and not is_product(file) and (name in here or file.startswith(TESTS)):
            return kept[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    vars(module)["__getattr__"] = find


def hide_posix():
    """Take away what no attribute of a module is."""
    import fcntl

    locks = type(sys)("msvcrt")
    locks.LK_NBLCK = fcntl.LOCK_EX | fcntl.LOCK_NB
    locks.locking = lambda descriptor, mode, size, lock=fcntl.flock: lock(descriptor, mode)
    sys.modules["fcntl"] = sys.modules["termios"] = None  # type: ignore[assignment]
    found = builtins.__import__

    def importing(name, scope=None, *others, **named):
        if name in (*MODULES, "msvcrt") and is_product((scope or {}).get("__file__") or ""):
            if name == "msvcrt":
                return locks
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found(name, scope, *others, **named)

    builtins.__import__ = importing
    load = ctypes.CDLL.__init__

    def loading(self, name, *others, **options):
        if name is None and is_product(sys._getframe(1).f_code.co_filename):
            raise TypeError("argument of type 'NoneType' is not iterable")
        load(self, name, *others, **options)

    ctypes.CDLL.__init__ = loading
    unix, pair = socket.AF_UNIX, socket.socketpair

    def paired(family=None, *others):
        if not is_product(sys._getframe(1).f_code.co_filename):
            return pair(unix if family is None else family, *others)
        with socket.create_server(("127.0.0.1", 0)) as server:
            return socket.create_connection(server.getsockname()), server.accept()[0]

    socket.socketpair = paired
    for name in ("recvmsg", "recvmsg_into", "sendmsg"):
        setattr(socket.socket, name, property(lambda self, name=name: with_messages(self, name)))


def with_messages(self, name):
    """A method of sockets, for all but the package."""
    if is_product(sys._getframe(2).f_code.co_filename):
        raise AttributeError(f"'socket' object has no attribute {name!r}")
    return getattr(super(socket.socket, self), name)


TAKEN = [taken for feature, taken in EVERYWHERE.items() if feature in WITHOUT]
if "posix" in WITHOUT:
    hide_posix()
for module in HERE:
    everywhere = " ".join(taken.get(module, "") for taken in TAKEN).split()
    here = HERE[module].split() if "posix" in WITHOUT else []
    if everywhere or here:
        hide(module, everywhere, here)
