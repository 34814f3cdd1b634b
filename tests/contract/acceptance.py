"""``@acceptance("P3")`` says which promise a test stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])

PROMISES = {
    "P1": "the frames of PZC00 equal an independent reference, byte by byte",
    "P2": "a pickle creates nothing at an agent that takes json, or has no key",
    "P3": "a killed server is an error in time, and the same proxy works after the restart",
    "P4": "no future that is complete when it is returned gets lost",
    "P5": "proxies subscribe to a signal independently, and nothing stays connected when all left",
    "P6": "a captured signed request is refused",
    "E1": "a ring of N holds exactly N publications for a reader that never reads",
    "E2": "a subscription that closes with unread messages frees them for the others",
    "E3": "a view that is kept never changes",
    "E4": "a message is unpickled once per process, however many subscriptions it has",
    "E5": "flows survive the death of the registry, and new ones find each other after its restart",
    "G1": "a late subscriber gets data within 1.5 s",
    "G2": "a killed agent's topics vanish after 3 to 4 s, a stopped one's at once, a frozen one's not",
    "G3": "random datagrams change nothing",
    "G4": "partitions do not hear each other",
    "G5": "a topic of scope process never leaves the process",
    "G6": "a publication behind wait_for_subscribers arrives, every time",
    "R1": "many keys take two connections",
    "R2": "lost and repeated commands end in the last state of each key",
    "R3": "a dead subscriber's state is gone after its time",
    "R4": "a restarted publisher is one gap",
    "C1": "a slow lossy reader costs the publisher nothing and every loss is counted",
    "C2": "ack_wait waits for the slowest, once, and not for who missed it before",
    "C3": "zero copy waits for a free buffer only",
    "C4": "a killed publisher leaves nothing, and its successor reaches the old readers",
    "X1": "readers of every policy get from one publisher what theirs promises",
    "X2": "a frozen reader slows nobody",
}


def acceptance(*names: str) -> Callable[[Test], Test]:
    """Mark a test that stands for promises.

    Args:
        names: keys of `PROMISES`.
    """
    assert set(names) <= PROMISES.keys(), names

    def mark(test: Test) -> Test:
        return pytest.mark.acceptance(*names)(test)

    return mark
