"""Following: which notifications of the broadcast plane are new to one subscription.

::

    state    event                                     next     what happens
    -        hold                                      held
    held     arrives                                   held     kept, at most `early_notifications`
    held     begin                                     open     a restart is told, what was kept is judged
    open     arrives, or the publisher tells its last  open     as `Cursor` says
    open     restart                                   held     the next beginning tells one restart gap
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from ...delivery.cursor import Cursors, Gap
from ...protocol import limits
from ...protocol.notification import Notification
from .filters import ANY

Observed = tuple[bool, Gap | None]
"""Whether a notification is new, and the gap that it reveals."""


class Following:
    """The numbers of one subscription; the receiver's thread.

    Args:
        topic: of the subscription.
    """

    __slots__ = ("_cursors", "_early")

    def __init__(self, topic: str) -> None:
        self._cursors = Cursors(None if topic == ANY else topic)
        self._early: list[Notification] | None = None

    @property
    def held(self) -> bool:
        """True until the publisher has confirmed."""
        return self._early is not None

    def hold(self) -> None:
        """Keep what arrives until `begin` tells what counts."""
        self._early = []

    def keep(self, notification: Notification) -> bool:
        """Keep an early one; False when it is not early. Too many are missed by their numbers."""
        if self._early is None:
            return False
        if len(self._early) < limits.current.early_notifications:
            self._early.append(notification)
        return True

    def begin(self, epoch: int, lasts: Mapping[str, int]) -> tuple[list[Gap], list[Notification]]:
        """The publisher has confirmed: each topic's last number that is not part of this.

        Returns:
            The restart gap, and what was kept; each of it is to be observed.
        """
        early, self._early = self._early or [], None
        return [gap for _, gap in self._cursors.begin(epoch, lasts)], early

    def observe(self, topic: str, epoch: int, number: int, told: bool = False, upto: int = 0) -> Observed:
        """A verified notification arrived: whether it is new, and the gap that it reveals.

        Args:
            topic: of the notification.
            epoch: of its publisher.
            number: in the topic.
            told: the publisher only says that this is the topic's last number, behind all that it sent.
            upto: number of the last of several that arrived together, numbered without a hole. When the first
                one is not new, each is to be observed by itself.
        """
        if not number or self._early is not None:
            return not told, None
        cursor = self._cursors.at(topic)
        return (False, cursor.tail(epoch, number)) if told else cursor.observe(epoch, number, upto)

    def restart(self) -> None:
        """Another agent has taken the publisher's place, numbering anew."""
        self._cursors.restart()
        self.hold()


class Followed(ABC):
    """What of a `Subscription` follows the broadcast plane; one that never does has no `Following`."""

    publisher: str
    topic: str
    _following: Following | None

    @abstractmethod
    def report_gap(self, gap: Gap) -> None:
        """Count a loss and tell the user."""

    @abstractmethod
    def deliver(self, entry: Notification) -> None:
        """Take a notification; never blocks."""

    def _follow(self) -> Following:
        following = self._following
        if following is None:
            following = self._following = Following(self.topic)
        return following

    @property
    def held(self) -> bool:
        """True until the publisher has confirmed."""
        following = self._following
        return following is not None and following.held

    def hold(self) -> None:
        """Keep what arrives until `begin` tells what counts; the receiver's thread."""
        self._follow().hold()

    def begin(self, epoch: int, lasts: Mapping[str, int]) -> None:
        """The publisher has confirmed; as `Following.begin`; the receiver's thread."""
        gaps, early = self._follow().begin(epoch, lasts)
        for gap in gaps:
            self.report_gap(gap)
        for notification in early:
            if self.observe(notification.topic, notification.epoch, notification.sequence)[0]:
                self.deliver(notification)

    def observe(self, topic: str, epoch: int, number: int, told: bool = False, upto: int = 0) -> Observed:
        """As `Following.observe`; the gap was reported then; the receiver's thread."""
        new, gap = (self._following or self._follow()).observe(topic, epoch, number, told, upto)
        if gap is not None:
            self.report_gap(gap)
        return new, gap

    def restart(self, publisher: str) -> None:
        """Another agent has taken the publisher's place, numbering anew; the receiver's thread.

        The gap is reported when that one has confirmed: from then on nothing is lost unseen.
        """
        self.publisher = publisher
        self._follow().restart()
