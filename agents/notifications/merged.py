"""Merged: one subscription to topics of many publishers, which may come and go.

Each source is a member, which follows its publisher as any subscription does: it finds its gaps and keeps its
leases. What it lets through goes into the one inbox of the merged subscription, whose policy and bound hold
for all of them together. `Notification.publisher` tells whose each one is.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from functools import partial

from ...delivery.cursor import Gap
from ...protocol.errors import MailboxTaken, Refused, SubscriptionClosed
from .links import inside
from .links.arrivals import Arrival
from .subscription import Subscription

logger = logging.getLogger("pzc.subscriber")

Make = Callable[..., Subscription]
"""As the class `Subscription`: makes a subscription out of its arguments."""

Join = Callable[[str, Make], Subscription]
"""Subscribes to one source with what `Make` makes."""


class Merged(Subscription):
    """A subscription made of others; `add` its sources.

    Args:
        args, options: as `Subscription`.
        join: subscribes to one source.
        patience: seconds for which a source stays whose publisher is gone: it may be back, and have kept what
            it published. Infinite for a subscription that has one source only.
        takes_along: a source that is removed takes with it what is pending of it.

    ``received``, ``dropped`` and ``gaps`` are those of all sources together. ``on_lost`` is not called, as a
    source that is lost may come back, unless it is the only one.
    """

    join: Join

    def __init__(
        self, *args: object, join: Join, patience: float = 0.0, takes_along: bool = False, **options: object
    ) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportArgumentType]
        self.join = join
        self.patience = patience
        self._members: dict[str, Subscription] = {}
        self._joining = threading.Lock()
        self._seen: dict[Subscription, set[tuple[str, int]]] | None = {} if takes_along else None

    @property
    def sources(self) -> list[str]:
        """What it is subscribed to now."""
        return [source for source, member in self._members.copy().items() if not member.closed]

    def add(self, source: str) -> None:
        """Subscribe to one source more; one that it has already changes nothing.

        Args:
            source: endpoint or name of a publisher.

        Raises:
            SubscriptionClosed: after `close`.
            PzcError: as `Agent.subscribe`.
        """
        if source in self.sources:
            return
        member = self.join(source, partial(Member, self))
        with self._joining:
            kept = not self.closed and source not in self.sources
            if kept:
                self._members[source] = member
        if not kept:
            member.close()
        if self.closed:
            raise SubscriptionClosed(f"the subscription to {self.topic} has ended")

    def remove(self, source: str) -> None:
        """Subscribe to one source less; an unknown one changes nothing."""
        with self._joining:
            member = self._members.pop(source, None)
        if member is None:
            return
        member.close()
        if self._seen is None:
            return
        with self._mutex:
            gone = self._seen.pop(member, set[tuple[str, int]]())
            left = set[tuple[str, int]]().union(*self._seen.values())
            self._inbox.forget(lambda entry: (entry.topic, entry.epoch) in gone - left)
        self._end_refused()

    def take(self, entries: Sequence[Arrival], member: Subscription) -> Subscription | None:
        """Notifications of a member; returns as `admit`."""
        gone = self.closed
        if self._seen is not None:
            with self._mutex:
                if member.closed:
                    gone = True
                    self._inbox.lose(len(entries))
                else:
                    self._seen.setdefault(member, set()).update(
                        (entry.topic, entry.epoch) for entry in entries
                    )
        if not gone:
            return self.admit(entries)
        for entry in entries:
            entry.consumed()
        return None

    def leave_out(self, member: Subscription, error: BaseException) -> None:
        """The publisher of a member has refused to go on; the others go on."""
        for source, each in self._members.copy().items():
            if each is member:
                logger.warning("%s is left out of %r: %s", source.rpartition("@")[2], self.topic, error)

    def end(self) -> None:
        """As `Subscription.end`, of every source."""
        super().end()
        with self._joining:
            members, self._members = self._members, {}
        for member in members.values():
            member.close()


class Member(Subscription):
    """The subscription of a merged subscription to one source; passes on what it gets."""

    def __init__(self, merged: Merged, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportArgumentType]
        self._merged = merged

    def passed(self, number: int, size: int) -> None:
        """Count it for the merged subscription as well."""
        super().passed(number, size)
        self._merged.passed(number, size)

    def report_lost(self, reason: str, *, ends: bool = False) -> None:
        """As `Subscription.report_lost`, for the merged subscription too when this is its only source."""
        super().report_lost(reason, ends=ends)
        if self._merged.patience == math.inf:
            self._merged.report_lost(reason, ends=ends)

    def refuse(self, error: BaseException) -> None:
        """It is left out, and ends; when another process reads its mailbox, the merged one ends as well."""
        alone = self._merged.patience == math.inf
        if isinstance(error, Refused) and not self._merged.closed:
            if alone or isinstance(error, MailboxTaken):
                self._merged.refuse(error)
            else:
                self._merged.leave_out(self, error)
        super().refuse(error)

    def admit(self, entries: Sequence[Arrival], size: int | None = None) -> Subscription | None:
        """Leave it to the merged subscription."""
        if self.ignores_local and self.publisher in inside.offered:
            return self._merged.ignore(entries)
        return self._merged.take(entries, self)

    def report_gap(self, gap: Gap) -> None:
        """Count a loss here, and for the merged subscription."""
        if not self.closed:
            self._keep_gap(gap)
            self._merged.report_gap(gap)
