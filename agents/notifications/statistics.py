"""Statistics of the topics of one publisher."""

from __future__ import annotations

from collections import Counter
from time import monotonic
from typing import Any

from .links.subscribers import Subscribers
from .metering import told
from .readers import Readers, name_of

MOST_READERS = 100
"""Names of readers that are told of one topic."""


def topics_told(subscribers: Subscribers, readers: Readers) -> dict[str, Any]:
    """Of each topic its last number, who listens, what was dropped for links, and what its meter says."""
    now = monotonic()
    with subscribers.lock:
        dropped = Counter[str]()
        for subscriber in subscribers.live():
            for interest in subscriber.queue.interests:
                dropped[interest.topic] += interest.missed
        topics = {
            topic: {
                "published": last,
                "dropped": dropped[topic],
                **told(subscribers.meters[topic], None, now),
            }
            for topic, last in subscribers.numbers.items()
            if topic not in subscribers.withdrawn
        }
    return {
        topic: {
            **about,
            "subscribers": readers.count(topic),
            "readers": sorted(name_of(who) for who in readers.of(topic) if ":" in who)[:MOST_READERS],
        }
        for topic, about in topics.items()
    }
