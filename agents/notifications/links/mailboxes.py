"""Mailboxes: those of one publisher, by their names.

Openings of a name, where its reader has a tenure::

    name        opened with              then
    nobody's    anything                 opened
    somebody's  no tenure                taken over: another tenure; the link before is over
    somebody's  the reader's tenure      as above: its process opens it anew
    somebody's  another tenure           MailboxTaken: another process reads it now

A name belongs to a key. Openings count in the order in which they are served: one of a process that has ended
meanwhile counts, too.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from time import monotonic
from typing import Any

from ....delivery.keep_queue import KeepQueue
from ....protocol import limits
from ....protocol.errors import MailboxTaken, Refused
from ....protocol.message import Identity
from ....protocol.records import Record, Records
from ....shm.ring import Ring
from .mailbox_subscriber import MailboxSubscriber
from .subscriber import Subscriber


class Mailboxes:
    """The mailboxes of one agent; safe from any thread.

    Args:
        lock: of all links.
        links: all of them, by id.
        ring: blocks of the publisher.
        records: makes frames of what the agent publishes.

    Attributes:
        shared: as given to `share`.
    """

    def __init__(
        self, lock: threading.RLock, links: Mapping[str, Subscriber], ring: Ring, records: Records
    ) -> None:
        self._ring = ring
        self._lock = lock
        self._links = links
        self._records = records
        self._named: dict[tuple[str, str], MailboxSubscriber] = {}
        self._tenures = self.shared = 0

    def all(self) -> list[MailboxSubscriber]:
        """Those that are open, oldest first; with the lock."""
        return [each for each in self._links.values() if isinstance(each, MailboxSubscriber)]

    def open(
        self, link: str, owner: Identity, name: str, tenure: int
    ) -> tuple[MailboxSubscriber, MailboxSubscriber | None]:
        """A new link to a mailbox; with the lock. Arguments as those of `MailboxSubscriber`.

        Returns:
            It, and the one from which it takes over.

        Raises:
            MailboxTaken: when another process reads it now.
            Refused: when there is no room for one more.
        """
        before = self._named.get((name, owner.key_id)) if name else None
        if before is None:
            self._check_room(owner)
        elif tenure and tenure != before.tenure:
            raise MailboxTaken(
                f"the mailbox {name!r} is read by another process now, which subscribed with the same name"
            )
        self._tenures += 1
        subscriber = MailboxSubscriber(
            link, owner, self._lock, self._ring, monotonic(), name, self._tenures,
            before, self._records,
        )  # fmt: skip
        if name:
            self._named[name, owner.key_id] = subscriber
        return subscriber, before

    def _check_room(self, owner: Identity) -> None:
        if sum(each.owner.key_id == owner.key_id for each in self.all()) >= limits.current.mailboxes:
            raise Refused("the mailbox was refused: its publisher has no room for one more of this key")

    def share(self, changes: int) -> None:
        """Share the bytes of each key among its mailboxes, those that ask for least first; with the lock.

        ``changes``: another number after each change of what readers want.
        """
        self.shared = changes
        by_key = dict[str, list[KeepQueue[Record]]]()
        for each in self.all():
            by_key.setdefault(each.owner.key_id, []).append(each.queue)
        for queues in by_key.values():
            left = limits.current.mail_bytes_per_key
            for before, queue in enumerate(sorted(queues, key=lambda queue: queue.asked)):
                queue.share = left // (len(queues) - before)
                left -= min(queue.asked, queue.share)

    def forget(self, subscriber: MailboxSubscriber) -> None:
        """It is over; with the lock."""
        key = subscriber.name, subscriber.owner.key_id
        if self._named.get(key) is subscriber:
            del self._named[key]

    def statistics(self) -> list[dict[str, Any]]:
        """What each mailbox holds and has done."""
        now = monotonic()
        with self._lock:
            return [each.statistics(now) for each in self.all() if len(each.queue.index)]
