"""Kept: the last notification of each topic and key, for those who subscribe later.

::

    event                          kept of that topic and key
    keep(topic, row)               the row, in place of the one before
    leave out(topic, key)          none: the newest was too large, and an older one is not the last
    forget(topic)                  none of the topic
    more than the bounds allow     all but the one that was published longest ago
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from ..protocol.link_messages import MAX_ITEMS, Row

MAX_BYTES = 64 << 20
"""Encoded contents of one publisher in bytes that are kept together."""


class Kept:
    """What one publisher keeps; not thread-safe.

    Args:
        most: rows that are kept together.
        most_bytes: of their bodies together.

    Attributes:
        evicted: rows that had to make room for others, so far.
    """

    def __init__(self, most: int = MAX_ITEMS, most_bytes: int = MAX_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._in_order: OrderedDict[tuple[str, str], Row] = OrderedDict()
        self._by_topic: dict[str, dict[str, Row]] = {}
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._in_order)

    @property
    def topics(self) -> list[str]:
        """Those of which something is kept, sorted."""
        return sorted(self._by_topic)

    def keep(self, topic: str, row: Row) -> None:
        """Keep a notification as the last of its topic and key."""
        self.leave_out(topic, row.key)
        self._in_order[topic, row.key] = row
        self._by_topic.setdefault(topic, {})[row.key] = row
        self._bytes += len(row.body)
        while len(self._in_order) > self._most or self._bytes > self._most_bytes:
            self.leave_out(*next(iter(self._in_order)))
            self.evicted += 1

    def leave_out(self, topic: str, key: str) -> None:
        """The last one of a topic and key is not kept."""
        before = self._in_order.pop((topic, key), None)
        if before is None:
            return
        self._bytes -= len(before.body)
        keys = self._by_topic[topic]
        del keys[key]
        if not keys:
            del self._by_topic[topic]

    def forget(self, topic: str) -> None:
        """Keep nothing of a topic."""
        for key in list(self._by_topic.get(topic, ())):
            self.leave_out(topic, key)

    def of(self, topic: str, keys: Collection[str] | None = None) -> list[Row]:
        """What is kept of a topic, or of some keys in it; in the order of the topic's numbers."""
        kept = self._by_topic.get(topic, {})
        found = kept.values() if keys is None else [kept[key] for key in keys if key in kept]
        return sorted(found, key=_number)


def _number(row: Row) -> int:
    return row.number
