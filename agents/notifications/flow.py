"""Flow: one subscription to many topics that flow together, which come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .entries import Entry, done
from .gathering import Gathering
from .subscription import Subscription


class Flow(Gathering):
    """A subscription to a node; a source is ``PUBLISHER TOPIC``, and takes with it what is pending of it."""

    def __init__(self, *args: object, **options: Any) -> None:
        super().__init__(*args, **options)
        self._seen: dict[Subscription, set[tuple[str, int]]] = {}

    def take(self, entries: Sequence[Entry], member: Subscription) -> Subscription | None:
        """Notifications of a member; returns as `admit`."""
        with self._mutex:
            gone = member.closed
            if gone:
                self._inbox.lose(len(entries))
            else:
                self._seen.setdefault(member, set()).update((entry.topic, entry.epoch) for entry in entries)
        if not gone:
            return super().take(entries, member)
        for entry in entries:
            done(entry)
        return None

    def remove(self, source: str) -> None:
        """As `Gathering.remove`; what is pending of the source is dropped and counted."""
        member = self._members.get(source)
        super().remove(source)
        if member is None:
            return
        with self._mutex:
            gone = self._seen.pop(member, set[tuple[str, int]]())
            left = set[tuple[str, int]]().union(*self._seen.values())
            self._inbox.forget(lambda entry: (entry.topic, entry.epoch) in gone - left)
        self._end_refused()
