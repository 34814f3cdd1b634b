"""Following: which notifications of the broadcast plane are new to one subscription.

::

    state    event                                     next     what happens
    -        hold                                      held
    held     arrives                                   held     kept, at most `early_notifications`
    held     begin                                     open     a restart is told, what was kept is judged
    open     arrives, numbered after the beginning     open     new, or repeated; a hole before it is a gap
    open     told of a number that did not arrive      open     a gap up to it, which is late from now on
    open     restart                                   held     the next beginning tells one restart gap
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from ...delivery.sequences import Gap, Sequence
from ...protocol import limits
from ...protocol.notification import Notification

Observed = tuple[bool, Gap | None]
"""Whether a notification is new, and the gap that it reveals."""


class Following:
    """The numbers of one subscription; I/O thread."""

    __slots__ = ("_begun", "_early", "_restarted", "_sequences")

    def __init__(self) -> None:
        self._sequences: dict[str, Sequence] | None = None
        self._begun: tuple[int, Mapping[str, int]] | None = None
        self._early: list[Notification] | None = None
        self._restarted: int | None = None

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

    def begin(self, epoch: int, lasts: Mapping[str, int]) -> tuple[Gap | None, list[Notification]]:
        """The publisher has confirmed: each topic's last number that is not part of this.

        Returns:
            The restart gap, and what was kept; each of it is to be observed.
        """
        self._begun = epoch, lasts
        early, self._early = self._early or [], None
        gap = None if self._restarted is None else Gap(self._restarted, 0, 0, restarted=True)
        self._restarted = None
        return gap, early

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
        first_epoch, lasts = self._begun or (None, dict[str, int]())
        before = lasts.get(topic, 0) if first_epoch == epoch else None
        if before is not None and number <= before:
            return False, None
        sequences = self._sequences
        if sequences is None:
            sequences = self._sequences = {}
        sequence = sequences.get(topic)
        if sequence is None:
            sequence = sequences[topic] = Sequence()
            if before is not None:
                sequence.begin(epoch, before)
        return (False, sequence.told(epoch, number)) if told else sequence.observe(epoch, number, upto)

    def restart(self, epoch: int) -> None:
        """Another agent has taken the publisher's place, numbering anew."""
        self._sequences = None
        self._begun = None
        if self._early is None or self._restarted is not None:
            self._restarted = epoch
        self.hold()


class Followed(ABC):
    """What of a `Subscription` follows the broadcast plane; one that never does has no `Following`."""

    publisher: str
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
            following = self._following = Following()
        return following

    @property
    def held(self) -> bool:
        """True until the publisher has confirmed."""
        following = self._following
        return following is not None and following.held

    def hold(self) -> None:
        """Keep what arrives until `begin` tells what counts; I/O thread."""
        self._follow().hold()

    def begin(self, epoch: int, lasts: Mapping[str, int]) -> None:
        """The publisher has confirmed; as `Following.begin`; I/O thread."""
        gap, early = self._follow().begin(epoch, lasts)
        if gap is not None:
            self.report_gap(gap)
        for notification in early:
            if self.observe(notification.topic, notification.epoch, notification.sequence)[0]:
                self.deliver(notification)

    def observe(self, topic: str, epoch: int, number: int, told: bool = False, upto: int = 0) -> Observed:
        """As `Following.observe`; the gap was reported then; I/O thread."""
        new, gap = (self._following or self._follow()).observe(topic, epoch, number, told, upto)
        if gap is not None:
            self.report_gap(gap)
        return new, gap

    def restart(self, publisher: str, epoch: int) -> None:
        """Another agent has taken the publisher's place, numbering anew; I/O thread.

        The gap is reported when that one has confirmed: from then on nothing is lost unseen.
        """
        self.publisher = publisher
        self._follow().restart(epoch)
