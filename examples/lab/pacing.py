"""One loop for every instrument that speaks at a steady rate."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

Publish = Callable[[str, object], object]

logger = logging.getLogger("pzc.examples.lab")


class Tally(NamedTuple):
    """What a loop did.

    Attributes:
        published: contents handed to ``publish``.
        missed: deadlines that passed while an earlier content was still being made or published.
    """

    published: int
    missed: int


def publish_paced(
    publish: Publish,
    topic: str,
    produce: Callable[[int], object],
    stop: threading.Event,
    rate_hz: float,
    *,
    count: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Tally:
    """Publish ``produce(0), produce(1), …`` at absolute deadlines until ``stop`` or ``count``.

    Deadline ``n`` is ``start + n / rate_hz``, so lateness never adds up. A deadline that passes while an
    earlier content is in work is counted as missed and given up; its content goes out at the next deadline
    still ahead. Contents are therefore never skipped, only later, and never sent in bursts.

    Args:
        publish: called as ``publish(topic, content)``; what it returns is ignored.
        topic: topic of every content.
        produce: called with the running index, at its deadline, in this thread.
        stop: ends the loop within one wake-up; a loop that finds it set publishes nothing.
        rate_hz: deadlines per second.
        count: contents to publish; None means until ``stop``.
        clock: monotonic seconds.

    Returns:
        How many contents were published and how many deadlines were missed.

    Raises:
        ValueError: ``rate_hz`` is not a positive finite number, or ``count`` is negative.
        Exception: whatever ``produce`` or ``publish`` raises ends the loop.
    """
    if not (math.isfinite(rate_hz) and rate_hz > 0):
        raise ValueError(f"rate_hz must be a positive finite number, not {rate_hz!r}")
    if count is not None and count < 0:
        raise ValueError(f"count must be None or not negative, not {count!r}")
    period = 1.0 / rate_hz
    start = clock()
    published = missed = slot = 0
    while count is None or published < count:
        if stop.wait(max(0.0, start + slot * period - clock())):
            break
        publish(topic, produce(published))
        published += 1
        current = max(slot, int((clock() - start) / period))
        missed += current - slot
        slot = current + 1
    logger.info("%s: %d published, %d deadlines missed", topic, published, missed)
    return Tally(published, missed)
