"""Slots of a ring, written and published."""

from __future__ import annotations

import os

from pzc.shm.ring import Ring, Slot
from pzc.shm.views import Mapped

SIZE = 100_000
BUFFERS = 4


def allocate(ring: Ring, size: int = SIZE) -> Slot:
    slot = ring.allocate(size)
    assert slot is not None
    return slot


def publish(ring: Ring, *holders: object, size: int = SIZE, fill: bytes = b"x") -> Slot:
    slot = allocate(ring, size)
    slot.buffer[:] = fill * size
    ring.publish(slot, holders)
    return slot


def seen(slot: Slot) -> memoryview:
    """A slot as a reader sees it."""
    mapped = Mapped()
    mapped.add(slot.block, os.dup(slot.fd))
    return mapped.view(slot.block, slot.size, bool)
