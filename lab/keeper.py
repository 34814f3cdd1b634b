"""A program that holds one process of a lab, so that no end of the lab leaves it behind.

Run as ``python -I -S keeper.py GRACE COMMAND ARGUMENT...`` with a pipe as stdin. When the pipe's other end is
closed, as the kernel does when its owner is killed, or on SIGTERM, the process is asked to end (SIGTERM), and
killed after ``GRACE`` seconds. Whatever the process started is killed when it has ended.
The exit status is that of the process. Its first line of output tells the process's id, and
everything else on stdout is the process's.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType

PARENT_DEATH_SIGNAL, CHILD_SUBREAPER = 1, 36  # of prctl(2)
LINUX = sys.platform == "linux"


def control(option: int, value: int) -> None:
    """prctl(2); elsewhere nothing."""
    if LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def begin() -> None:
    """What the process does first: it tells its id, and ends with its keeper."""
    control(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    os.write(1, b'{"pid": %d}\n' % os.getpid())


def children() -> list[int]:
    """Processes whose parent is this one."""
    found: list[int] = []
    for name in filter(str.isdigit, os.listdir("/proc") if LINUX else ()):
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


def end_rest(group: int) -> None:
    """Kill what the process left; what loses its parent becomes a child of this process."""
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    while left := children():
        for each in left:
            with contextlib.suppress(OSError):
                os.kill(each, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.waitpid(each, 0)


def main() -> int:
    """Run until the process has ended."""
    grace, command = float(sys.argv[1]), sys.argv[2:]
    control(CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.extend([number] if number == signal.SIGTERM else [])

    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGCHLD, note)
    child = subprocess.Popen(  # there is one thread here
        command, stdin=subprocess.DEVNULL, process_group=0,
        preexec_fn=begin,  # noqa: PLW1509
    )  # fmt: skip
    watched, deadline = [0, woken], None
    while child.poll() is None:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = select.select(watched, [], [], left)[0]
        if woken in ready:
            os.read(woken, 4096)
        if 0 in ready and not os.read(0, 4096):
            watched.remove(0)
            asked.append(signal.SIGTERM)
        if asked and deadline is None:
            child.terminate()
            deadline = time.monotonic() + grace
        if deadline is not None and time.monotonic() >= deadline:
            child.kill()
            child.wait()
    end_rest(child.pid)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main())
