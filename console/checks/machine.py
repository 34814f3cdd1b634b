"""What the machine gives: shared memory, descriptors, disk, clock."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from ...shm import machine
from ...shm.blocks import Block, capacity
from .finding import Finding, Subject, ok, skipped, warning

GIB = 1 << 30
MIB = 1 << 20

ENOUGH_MEMORY = GIB
"""Bytes that the shared memory of one publisher may take."""

ENOUGH_DESCRIPTORS = 1024
"""An agent uses about ten, and a few for each peer."""

ENOUGH_DISK = GIB

_WRITE_SEAL = 0x10
_BLOCK = 1 << 16
_STA_UNSYNC = 0x0040
_STEP = 0.05
"""Seconds by which the wall clock may differ from the monotonic one during a report."""


def check_shared_memory(subject: Subject) -> Iterator[Finding]:
    """A block can be made, is sealed, and cannot be written by a reader."""
    del subject
    if not machine.MEMORY:
        yield warning(
            "shared memory", "this system has no memfd", "large contents are sent over the socket instead"
        )
        return
    block = Block.create(_BLOCK)
    try:
        size = capacity(block.fd)
        protected = _is_protected(block.fd)
    finally:
        block.close()
    if not protected:
        text = "a reader could write to a publisher's memory: this kernel lacks F_SEAL_FUTURE_WRITE"
        yield warning("shared memory", text, "Linux 5.1 or newer has it")
        return
    yield ok("shared memory", f"a block of {size} bytes was made, is sealed, and readers cannot write to it")


def _is_protected(fd: int) -> bool:
    import fcntl

    if not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _WRITE_SEAL:
        return False
    try:
        mmap.mmap(fd, _BLOCK).close()
    except OSError:
        return True
    return False


def check_memory(subject: Subject) -> Iterator[Finding]:
    """How much memory blocks can take: of the machine, of the container, of the process."""
    del subject
    free, shmem = _meminfo("MemAvailable"), _meminfo("Shmem")
    limits = {"machine": free} if free is not None else {}
    limits |= {f"control group ({name})": left for name, left in _control_group()}
    for name in ("RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_DATA"):
        soft, _ = _limits(name)
        if soft is not None:
            limits[name] = soft
    used = f", {_mib(shmem)} of shared memory in use" if shmem is not None else ""
    shown = ", ".join(f"{name} {_mib(left)}" for name, left in limits.items())
    told = {"free_bytes": limits, "shmem_bytes": shmem}
    least = min(limits, key=lambda name: limits[name], default=None)
    if least is not None and limits[least] < ENOUGH_MEMORY:
        text = (
            f"{least} leaves {_mib(limits[least])}; a publisher of arrays takes up to {_mib(ENOUGH_MEMORY)}"
        )
        yield warning("memory", f"{text}{used}", _raise_limit(least), **told)
    else:
        yield ok("memory", f"{shown or 'no limit is known'}{used}", **told)
    locked, _ = _limits("RLIMIT_MEMLOCK")
    shown = "unlimited" if locked is None else _mib(locked)
    yield ok("locked memory", f"{shown} (RLIMIT_MEMLOCK; not needed: blocks are reserved, not locked)")


def _limits(name: str) -> tuple[int | None, int | None]:
    """Soft and hard limit of this process; None for one that there is not."""
    try:
        import resource
    except ImportError:  # Windows
        return None, None
    found = resource.getrlimit(getattr(resource, name))
    soft, hard = (None if each == resource.RLIM_INFINITY else each for each in found)
    return soft, hard


def _raise_limit(name: str) -> str:
    options = {"RLIMIT_AS": "v", "RLIMIT_FSIZE": "f", "RLIMIT_DATA": "d"}
    if name in options:
        return f"ulimit -{options[name]} unlimited; beyond a limit contents are sent over the socket, slower"
    return "give the machine or container more memory, or publish with fewer buffers"


def _meminfo(name: str) -> int | None:
    with contextlib.suppress(OSError):
        found = re.search(
            rf"^{name}:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE
        )
        if found is not None:
            return int(found[1]) * 1024
    return None


def _control_group() -> Iterator[tuple[str, int]]:
    """What the limits of the process's control group leave, for those that have one."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            number, kinds, place = line.split(":", 2)
            if number == "0":
                folder, names = f"/sys/fs/cgroup{place}", ("memory.max", "memory.current")
            elif "memory" in kinds.split(","):
                folder, names = (
                    f"/sys/fs/cgroup/memory{place}",
                    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
                )
            else:
                continue
            with contextlib.suppress(OSError, ValueError):
                limit, usage = (int(Path(folder, name).read_text(encoding="ascii")) for name in names)
                if limit < 1 << 60:
                    yield names[0], max(0, limit - usage)


def _mib(size: int) -> str:
    return f"{size / MIB:.0f} MiB" if size < GIB else f"{size / GIB:.1f} GiB"


def check_descriptors(subject: Subject) -> Iterator[Finding]:
    """How many files and sockets a process may hold open."""
    del subject
    soft, hard = _limits("RLIMIT_NOFILE")
    if soft is None:
        yield skipped("file descriptors", "no limit is known")
        return
    used = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    text = f"limit {soft}, at most {hard or 'any number'}" + ("" if used is None else f", {used} in use here")
    told = {"soft": soft, "hard": hard, "used": used}
    if soft < ENOUGH_DESCRIPTORS:
        todo = f"ulimit -n {min(hard or 65_536, 65_536)} before starting servers: each peer takes some"
        yield warning("file descriptors", text, todo, **told)
    else:
        yield ok("file descriptors", text, **told)


def check_disk(subject: Subject) -> Iterator[Finding]:
    """Space in the working directory, where recordings and logs go."""
    del subject
    place = Path.cwd()
    usage = shutil.disk_usage(place)
    text = f"{_mib(usage.free)} free of {_mib(usage.total)} at {place}"
    told = {"free_bytes": usage.free, "total_bytes": usage.total}
    if not os.access(place, os.W_OK):
        yield warning(
            "disk", f"{place} cannot be written to", "change to a directory of yours before recording", **told
        )
    elif usage.free < ENOUGH_DISK:
        yield warning("disk", text, "make room, or record elsewhere: a full disk ends a recording", **told)
    else:
        yield ok("disk", text, **told)


def check_clock(subject: Subject) -> Iterator[Finding]:
    """The wall clock runs as the monotonic one does, and somebody keeps it right."""
    wall, monotonic = subject.started
    step = (time.time() - wall) - (time.monotonic() - monotonic)
    if abs(step) > _STEP:
        text = f"the wall clock was set by {step:+.3f} s while this ran"
        yield warning(
            "clock", text, "let one program keep the time: chrony or ntpd, without steps", step_s=step
        )
        return
    synchronised = _synchronised()
    if synchronised is None:
        yield skipped("clock", "runs evenly; whether it is synchronised cannot be seen here")
    elif synchronised:
        yield ok("clock", "runs evenly, and is synchronised", step_s=step)
    else:
        todo = "start chrony or ntpd; peers' clocks are measured and corrected for, but times in data are not"
        yield warning("clock", "runs evenly, but nothing keeps it synchronised", todo, step_s=step)


class _Timex(ctypes.Structure):
    """The beginning of the kernel's ``struct timex``; the rest is room."""

    _fields_ = (
        ("modes", ctypes.c_int), ("offset", ctypes.c_long), ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long), ("esterror", ctypes.c_long), ("status", ctypes.c_int),
        ("room", ctypes.c_char * 256),
    )  # fmt: skip


def _synchronised() -> bool | None:
    """What the kernel knows of its clock; None where it does not tell."""
    timex = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError, TypeError):  # no C library without a name, or none with that function
        return None
    return None if state < 0 else not timex.status & _STA_UNSYNC
