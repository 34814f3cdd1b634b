"""Statistics: what is told of the topics of one publisher."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Any

from .links.outlets import Outlets
from .metering import told
from .readers import name_of

MOST_READERS = 100
"""Names of readers that are told of one topic."""


def topics_told(
    outlets: Outlets, subscribers: Callable[[str], int], readers: Callable[[str], set[str]]
) -> dict[str, Any]:
    """Of each topic its last number, who listens, what was dropped for links, and what its meter says."""
    now = monotonic()
    with outlets.lock:
        dropped = Counter[str]()
        for outlet in outlets.links.values():
            for interest in outlet.queue.interests:
                dropped[interest.topic] += interest.missed
        topics = {
            topic: {"published": last, "dropped": dropped[topic], **told(outlets.meters[topic], None, now)}
            for topic, last in outlets.numbers.items()
            if topic not in outlets.withdrawn
        }
    return {
        topic: {
            **about,
            "subscribers": subscribers(topic),
            "readers": sorted(name_of(who) for who in readers(topic) if ":" in who)[:MOST_READERS],
        }
        for topic, about in topics.items()
    }
