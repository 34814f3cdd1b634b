"""Recorder: an agent that writes every notification of other agents to a journal.

It subscribes raw: the five frames are checked on arrival and kept as they came, so that a
signature can be checked again years later. What it could not keep is counted, never hidden:
losses on the way are gaps of its subscriptions, refused rows are in `lost`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..agents.agent import Agent
from ..agents.notifying.subscriber import ANY
from ..agents.notifying.subscription import Notification, Subscription
from ..agents.wire import Protocol
from ..delivery.policies import Policy, drop
from ..protocol.errors import JournalError
from .journal import Journal, JournalRow

logger = logging.getLogger("pzc.recorder")

INBOX = drop(20_000)
"""Notifications that may wait per publisher while a segment is written."""

_IDLE_TICK = 0.5
_QUIET = 0.3


class Recorder:
    """Records everything that some agents publish.

    Args:
        directory: of the journal; created when absent.
        publishers: REP endpoints, names, or patterns of names of the agents; with a topic beside it,
            ``(publisher, topic)``, that topic only.
        name: of the recorder, part of the segments' file names.
        protocol: default `Protocol`, which reads the ``PZC_`` variables.
        policy: what happens when the disk is slower than the publishers; default drop(20 000).
        journal_options: as `Journal`, such as ``max_bytes`` and ``max_age``.

    Raises:
        JournalError: when the directory cannot be used.
        CallTimeout, PeerLost, SignatureError, UnknownName: when a publisher cannot be reached.
    """

    def __init__(
        self,
        directory: str | Path,
        publishers: Iterable[str | tuple[str, str]],
        *,
        name: str = "recorder",
        protocol: Protocol | None = None,
        policy: Policy = INBOX,
        **journal_options: Any,
    ) -> None:
        self.recorded = 0
        self.lost = 0
        self.journal = Journal(directory, recorder=name, **journal_options)
        self.agent = Agent(name=name, protocol=protocol)
        self._closing = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="pzc-journal", daemon=True)
        self._ticker.start()
        self.subscriptions: list[Subscription] = []
        try:
            for source in publishers:
                publisher, topic = (source, ANY) if isinstance(source, str) else source
                subscription = self.agent.subscribe(publisher, topic, self._take, policy=policy, raw=True)
                self.subscriptions.append(subscription)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _take(self, notification: Notification) -> None:
        row = JournalRow(
            frames=notification.frames,
            publisher=notification.publisher,
            topic=notification.topic,
            sequence=notification.sequence,
            received_at=notification.received_at,
            name=notification.name,
            epoch=notification.epoch,
            sent_at=notification.sent_at,
            key_id=notification.key_id,
        )
        try:
            self.journal.append(row)
            self.recorded += 1
        except JournalError as exc:
            self.lost += 1
            logger.error("a notification of %s could not be recorded: %s", notification.name, exc)

    def _tick(self) -> None:
        while not self._closing.wait(min(_IDLE_TICK, self.journal.due_in() or _IDLE_TICK)):
            self.journal.tick()

    def statistics(self) -> dict[str, int]:
        """Rows recorded and durable, and everything lost on the way or at the disk."""
        return {
            "recorded": self.recorded,
            "durable": self.journal.durable_offset + 1,
            "refused_by_journal": self.lost,
            "lost_on_the_way": sum(s.dropped for s in self.subscriptions),
            "pending": sum(s.pending for s in self.subscriptions),
        }

    def drain(self, timeout: float = 10.0) -> bool:
        """Wait until nothing more arrives and everything that arrived is in the journal.

        Args:
            timeout: seconds.

        Returns:
            False when notifications still came, or waited, at the end of the timeout.
        """
        deadline = time.monotonic() + timeout
        seen = -1
        while time.monotonic() < deadline:
            taken = self.recorded + self.lost
            if taken == seen and not any(s.pending for s in self.subscriptions):
                return True
            seen = taken
            self._closing.wait(_QUIET)
        return False

    def close(self) -> None:
        """Stop the agent, write what is left, release the directory; does not `drain`.

        Raises:
            JournalError: when the rest cannot be written.
        """
        self.agent.stop()
        self._closing.set()
        self._ticker.join(10.0)
        self.journal.close()
