"""Sources: the publishers whose broadcasts a process gets, and which of its subscriptions get what."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ...protocol.peer import Peer
from .filters import ANY
from .subscription import Subscription


@dataclass
class Source:
    """One publisher agent as this process sees it."""

    peer: Peer
    subscriptions: dict[str, list[Subscription]] = field(default_factory=lambda: defaultdict(list))
    complained: set[str] = field(default_factory=set)

    def everyone(self) -> list[Subscription]:
        """All its subscriptions."""
        return [s for entries in self.subscriptions.values() for s in entries]

    def wanting(self, topic: str) -> list[Subscription]:
        """Those that get a topic."""
        return [*self.subscriptions.get(topic, ()), *self.subscriptions.get(ANY, ())]
