"""A process of its own: passes Ethernet frames between devices of two namespaces, each after a delay.

    ethernet.py NAMESPACE DEVICE NAMESPACE DEVICE SECONDS

It makes the devices, says ``ready``, and ends with its standard input. Only the standard library, so that it starts
at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct
import sys
import time
from collections import deque

CLONE_NEWNET = 0x40000000
CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
MAX_FRAME = 65_536
MAX_WAITING = 20_000
"""Frames that may be under way in each direction; more are lost, as in any switch."""


def enter(namespace: str) -> None:
    """Move this thread into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    where = os.open(f"/run/netns/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(where, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    finally:
        os.close(where)


def instead_of(file: str, path: str) -> None:
    """Let this thread, and those that it starts, see a file at another's path."""
    libc = ctypes.CDLL(None, use_errno=True)
    for code in (
        libc.unshare(CLONE_NEWNS),
        libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None),
        libc.mount(file.encode(), path.encode(), None, MS_BIND, None),
    ):
        if code:
            raise OSError(ctypes.get_errno(), f"cannot show {file} as {path}")


def open_tap(device: str) -> int:
    """A new TAP device in the namespace of this thread."""
    import fcntl

    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
    return tap


def relay(taps: list[int], delay: float) -> None:
    """Pass frames on until the standard input ends."""
    waiting: list[deque[tuple[float, bytes]]] = [deque(), deque()]
    poll = select.poll()
    for readable in (0, *taps):
        poll.register(readable, select.POLLIN)
    while True:
        dues = [each[0][0] for each in waiting if each]
        left = max(0.0, min(dues) - time.monotonic()) * 1000 if dues else -1
        for readable, _ in poll.poll(left):
            if readable == 0:
                return
            side = taps.index(readable)
            with contextlib.suppress(BlockingIOError, OSError):  # a device that is down gives nothing
                while True:
                    frame = os.read(readable, MAX_FRAME)
                    if len(waiting[side]) < MAX_WAITING:
                        waiting[side].append((time.monotonic() + delay, frame))
        for side, frames in enumerate(waiting):
            while frames and frames[0][0] <= time.monotonic():
                with contextlib.suppress(OSError):  # a device that is down takes nothing
                    os.write(taps[1 - side], frames.popleft()[1])


def main() -> None:
    """Do what the arguments say."""
    first, device, second, port, delay = sys.argv[1:]
    taps: list[int] = []
    for namespace, name in ((first, device), (second, port)):
        enter(namespace)
        taps.append(open_tap(name))
    os.write(1, b"ready\n")
    relay(taps, float(delay))


if __name__ == "__main__":
    main()
