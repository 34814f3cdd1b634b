"""Gathering: one subscription to a topic of many publishers, which may come and go.

Each source is a member, which follows its publisher as any subscription does: it finds its gaps and keeps its
leases. What it lets through goes into the one inbox of the gathering, whose policy and bound hold for all
of them together. `Notification.publisher` tells whose each one is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from ...delivery.cursor import Gap
from ...protocol.errors import PzcError, Refused, SubscriptionClosed
from .entries import Entry, done
from .subscription import Subscription

Make = Callable[..., Subscription]
"""As the class `Subscription`: makes a subscription out of its arguments."""

Join = Callable[[str, Make], Subscription]
"""Subscribes to one source with what `Make` makes."""


class Gathering(Subscription):
    """A subscription made of others; arguments as `Subscription`, ``join`` and ``single``. `add` its sources.

    ``received``, ``dropped`` and ``gaps`` are those of all sources together. ``on_lost`` is not called, as a
    source that is lost may come back, unless it is for a ``single`` one.
    """

    join: Join

    def __init__(self, *args: object, join: Join, single: bool = False, **options: object) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportArgumentType]
        self.join = join
        self.single = single
        self._members: dict[str, Subscription] = {}
        self._joining = threading.Lock()

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
        """Subscribe to one source less; what has come from it stays. An unknown one changes nothing."""
        with self._joining:
            member = self._members.pop(source, None)
        if member is not None:
            member.close()

    def refuse(self, error: PzcError) -> None:
        """Its only source refuses it: it ends."""
        if isinstance(error, Refused):
            self.refusal = error
        self.report_lost(str(error), ends=True)

    def take(self, entries: Sequence[Entry], member: Subscription) -> Subscription | None:
        """Notifications of a member; returns as `admit`."""
        del member
        if not self.closed:
            return self._admit(entries, None)
        for entry in entries:
            done(entry)
        return None

    def lose(self, gap: Gap) -> None:
        """A loss that a member has found."""
        self._count_gap(gap)

    def end(self) -> None:
        """As `Subscription.end`, of every source."""
        super().end()
        with self._joining:
            members, self._members = self._members, {}
        for member in members.values():
            member.close()


class Member(Subscription):
    """The subscription of a gathering to one source; passes on what it gets."""

    def __init__(self, gathering: Gathering, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportArgumentType]
        self._gathering = gathering

    def passed(self, number: int, size: int) -> None:
        """Count it for the gathering as well."""
        super().passed(number, size)
        self._gathering.passed(number, size)

    def report_lost(self, reason: str, *, ends: bool = False) -> None:
        """As `Subscription.report_lost`, for the gathering too when this is its only source."""
        super().report_lost(reason, ends=ends)
        if self._gathering.single:
            self._gathering.report_lost(reason, ends=ends)

    def ignore(self, entries: Sequence[Entry]) -> None:
        """Count it for the gathering."""
        self._gathering.ignore(entries)

    def _admit(self, entries: Sequence[Entry], size: int | None) -> Subscription | None:
        return self._gathering.take(entries, self)

    def _count_gap(self, gap: Gap) -> None:
        if not (self.closed or self.held):
            self._keep_gap(gap)
            self._gathering.lose(gap)
