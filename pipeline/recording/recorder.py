"""Recorder: an agent that writes every notification of other agents to a journal.

::

    publisher's mailbox ──▶ rows in memory ──▶ segment on disk ──▶ acknowledged
            ▲                     │ half full, or the disk refuses
            └──── left there ─────┘

It subscribes raw: the five frames are kept as their publisher signed them, so that a signature can be checked
again years later. What is not on disk is not acknowledged, so its publisher keeps it, for this recorder or
the next one of that name. Publishers that keep no mailboxes are recorded as far as their broadcasts come.
What is lost all the same is a line among the gaps (see `gaps`), and counted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ...agents import ANY, CALLS, Agent, Burst, Missed, Notification, Subscription
from ...delivery.cursor import Gap
from ...delivery.policies import Policy, drop, mailbox
from ...protocol.errors import JournalError
from ...protocol.shown import printable
from ...transport.threads import begin
from ...transport.wire import Protocol
from .backlog import ASK, Backlog, sources
from .flush import FlushRequests
from .gaps import GapLog, GapRow
from .journal import Journal
from .maintenance import Maintenance

logger = logging.getLogger("pzc.recorder")

INBOX = drop(20_000)
"""For publishers that keep no mailboxes: notifications that may wait while a segment is written."""

KEEP = 3600.0
"""Seconds that a publisher keeps what it has for a recorder that is gone."""

_IDLE_TICK = 0.25
_QUIET = 0.3
_LOOK = 0.05


def mailbox_of(recorder: str) -> Policy:
    """The policy of a recorder: as many messages as a mailbox may have, 512 MB at each publisher."""
    return mailbox(max_messages=1_000_000, name=recorder, keep=KEEP)


class Recorder:
    """Records everything that some agents publish.

    Args:
        directory: of the journal; created when absent.
        publishers: REP endpoints, names, or patterns of names of the agents; with a topic beside it,
            ``(publisher, topic)``, that topic only.
        name: of the recorder, part of the segments' file names, and name of its mailboxes.
        protocol: default `Protocol`, which reads the ``PZC_`` variables.
        calls: record the audit logs of servers as well (topic ``pzc/calls``), also where a topic is given.
        compact: make large segments of small ones; see `maintenance`.
        keep_seconds: age in seconds at which segments are removed; default never.
        keep_bytes: most bytes of segments and blobs, beyond which the oldest are removed; default no limit.
        policy: default a mailbox of the recorder's name (`mailbox_of`), and drop(20 000) where that is
            refused; ``drop`` or ``latest`` for all.
        journal_options: as `Journal`, such as ``max_bytes`` and ``max_age``.

    Attributes:
        sources: what each subscription is to, as it was given.
        ended: why a subscription has ended.
        left: after `drain`, how many notifications each publisher keeps still, by its endpoint or name; None
            for one that does not tell.

    Raises:
        JournalError: when the directory cannot be used.
        CallTimeout, PeerLost, SignatureError: when an endpoint cannot be reached; a name is waited for.
        UnknownName: where no name can be heard of.
    """

    def __init__(
        self,
        directory: str | Path,
        publishers: Iterable[str | tuple[str, str]],
        *,
        name: str = "recorder",
        protocol: Protocol | None = None,
        calls: bool = False,
        compact: bool = False,
        keep_seconds: float | None = None,
        keep_bytes: int | None = None,
        policy: Policy | None = None,
        **journal_options: Any,
    ) -> None:
        self.recorded = 0
        self.lost = 0
        self.journal = Journal(directory, recorder=name, on_durable=self._on_durable, **journal_options)
        home = self.journal.directory
        self.gaps = GapLog(home, name)
        self.maintenance = Maintenance(
            home, name, compact=compact, keep_seconds=keep_seconds, keep_bytes=keep_bytes, gaps=self.gaps
        )
        self._policy = policy or mailbox_of(name)
        self._names: dict[str, str] = {}
        self._order = threading.Lock()
        self._unacknowledged: deque[tuple[int, Callable[[], object]]] = deque()
        self._closing = threading.Event()
        self._news = threading.Event()
        self._full = self._refused = False
        self.subscriptions: list[Subscription] = []
        self.sources: list[str] = []
        self.ended: dict[Subscription, str] = {}
        self.left: dict[str, int | None] = {}
        try:
            self.agent = _RecorderAgent(name=name, protocol=protocol)
        except BaseException:
            self.journal.close()
            raise
        self.agent.told = self.statistics
        self._requests = FlushRequests(home, name)
        self._requests.open()
        self._writer = threading.Thread(target=self._write, name="pzc-journal", daemon=True)
        try:
            begin(self._writer)
            self.maintenance.start()
            for publisher, topic in _sources(publishers, calls):
                self._subscribe(publisher, topic)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _subscribe(self, publisher: str, topic: str) -> None:
        kept = self._policy.name == "mailbox"
        options: dict[str, Any] = {"manual_ack": True, "sink": self, "fallback": INBOX} if kept else {}
        subscription = self.agent.subscribe(
            publisher, topic, self._take_one, policy=self._policy, raw=True, **options
        )

        def lost(reason: str) -> None:
            self.ended[subscription] = reason
            logger.error("%s of %s: %s", topic, publisher, reason)

        subscription.on_lost = lost
        if subscription.sink is None:
            subscription.on_gap = lambda gap: self._miss_one(publisher, topic, gap)
        self.subscriptions.append(subscription)
        self.sources.append(publisher)

    # --- what comes out of mailboxes: in the receiver's thread ---------------------------------------

    @property
    def paused(self) -> bool:
        """Publishers are to keep what they have: the memory is half full."""
        return self._full

    def take(self, burst: Burst) -> None:
        """Take messages; acknowledged when they are durable, as some may be that come again."""
        self._names[burst.publisher] = burst.name
        try:
            with self._order:
                burst, lost = self.journal.numbers.fresh(burst)
                last = self.journal.extend(burst)
                self._unacknowledged.append((last, burst.done))
        except JournalError:  # closed: they stay where they are
            return
        for topic, gap in lost:
            self._note(burst.publisher, topic, gap, "forgotten")
        self.recorded += len(burst.rows)
        if last <= self.journal.durable_offset:  # nothing of it was new
            self._on_durable(last)
        self._full = self.journal.full
        if self.journal.due_in() == 0.0:
            self._news.set()

    def miss(self, missed: Missed) -> None:
        """Write down what will not come."""
        self.journal.numbers.told(missed)
        self._note(missed.publisher, missed.topic, missed.gap, missed.reason)

    # --- everything else: in the callback thread -----------------------------------------------------

    def _take_one(self, notification: Notification) -> None:
        try:
            with self._order:
                offset = self.journal.take(notification)
                if notification.receipt is not None:
                    self._unacknowledged.append((offset, notification.acknowledge))
            self.recorded += 1
        except JournalError as exc:
            self.lost += 1
            if not self._refused:  # told once, or the log would fill the disk that is full
                self._refused = True
                text = "a notification of %s could not be recorded, as what comes until rows are written: %s"
                logger.error(text, notification.name, exc)
        if self.journal.due_in() == 0.0:
            self._news.set()

    def _miss_one(self, publisher: str, topic: str, gap: Gap) -> None:
        self._note(publisher, topic, gap, "restarted" if gap.restarted else "lost")

    def _note(self, publisher: str, topic: str, gap: Gap, reason: str) -> None:
        name = self._names.get(publisher, "")
        row = GapRow(time.time(), publisher, name, gap.epoch, topic, gap.first, gap.last, gap.count, reason)
        self.gaps.add(row)
        logger.warning("%s", row)
        self._news.set()

    # --- the disk: in a thread of its own ------------------------------------------------------------

    def _write(self) -> None:
        while not self._closing.is_set():
            due = self.journal.due_in()
            self._news.wait(_IDLE_TICK if due is None else min(_IDLE_TICK, due))
            self._news.clear()
            try:
                self._write_gaps()
                self.journal.tick()
                self._requests.answer(self.journal.commit)
            except Exception:  # for want of memory: the next one may succeed
                logger.exception("what was recorded could not be looked after")
                self._closing.wait(_IDLE_TICK)
            self._full = self._closing.is_set() or self.journal.full

    def _write_gaps(self) -> None:
        try:
            self.gaps.write()
        except OSError as exc:
            logger.debug("gaps wait to be written: %s", exc)  # the journal tells of it loudly

    def _on_durable(self, offset: int) -> None:
        done = list[Callable[[], object]]()
        with self._order:
            waiting = self._unacknowledged
            while waiting and waiting[0][0] <= offset:
                done.append(waiting.popleft()[1])
        self._full, self._refused = self._closing.is_set() or self.journal.full, False
        for each in done:
            try:
                each()
            except Exception:  # for want of memory: its publisher keeps that for the next recorder
                logger.exception("what is durable could not be acknowledged")

    # --- what is known of it -------------------------------------------------------------------------

    def statistics(self) -> dict[str, Any]:
        """Rows recorded and durable, everything lost on the way or at the disk, and what holds it up.

        ``recorded`` since it began; ``durable`` in all; ``waiting`` in memory; ``missing`` as the gaps tell;
        ``paused`` when publishers are to keep what they have; ``error`` of the disk, empty while it works.
        """
        return {
            "recorded": self.recorded,
            "durable": self.journal.durable_offset + 1,
            "waiting": self.journal.pending_rows,
            "waiting_bytes": self.journal.pending_bytes,
            "refused_by_journal": self.lost,
            "lost_on_the_way": sum(s.dropped for s in self.subscriptions),
            "missing": self.gaps.count,
            "pending": sum(s.pending for s in self.subscriptions),
            "removed_segments": self.maintenance.removed,
            "removed_blobs": self.maintenance.removed_blobs,
            "paused": self.paused,
            "error": "" if self.journal.error is None else str(self.journal.error),
        }

    def drain(self, timeout: float = 10.0) -> bool:
        """Wait until the journal has all that mailboxes held when this was called.

        What has arrived without a mailbox is in it as well.

        Args:
            timeout: seconds.

        Returns:
            False when something was not in the journal at the end of the timeout; see ``left``.
        """
        deadline, pause = time.monotonic() + timeout, _QUIET
        named = zip(self.sources, self.subscriptions, strict=True)
        backlog = Backlog(self.agent, printable(self._policy.durable or self.agent.agent_id), sources(named))
        while True:
            self._closing.wait(pause)
            pause = _LOOK
            done = not any(each.pending for each in self.subscriptions)
            try:
                self.journal.commit()
            except JournalError:  # what the disk does not take stays where it is
                done = False
            backlog.ask(min(ASK, max(_QUIET, deadline - time.monotonic())))
            self.left = backlog.left
            if done and not self.left:
                return True
            if time.monotonic() >= deadline or (done and not backlog.asked):
                return False

    def close(self) -> None:
        """Write what is left, acknowledge it, stop the agent and release the directory; does not `drain`.

        What the mailboxes still hold stays there for the next recorder of this name.

        Raises:
            JournalError: when the rest cannot be written.
        """
        if not self.journal.is_open:  # again, or by a forked child, whose parent goes on
            return
        self._closing.set()
        self._full = True
        self._news.set()
        self.maintenance.close()
        if self._writer.ident is not None:  # it could be started
            self._writer.join(10.0)
        try:
            self._write_gaps()
            self.journal.commit()
        except JournalError as exc:
            logger.error("not everything could be written, and is not acknowledged: %s", exc)
        self.agent.stop()
        self._requests.close()
        self.journal.close()


def _sources(publishers: Iterable[str | tuple[str, str]], calls: bool) -> Iterable[tuple[str, str]]:
    """Publishers and topics, each once; all topics have the calls among them."""
    named = [(each, ANY) if isinstance(each, str) else each for each in publishers]
    every = {publisher for publisher, topic in named if topic == ANY}
    more = [(publisher, CALLS) for publisher, _ in named if calls and publisher not in every]
    return dict.fromkeys([*named, *more])


class _RecorderAgent(Agent):
    """An agent whose statistics tell of its recorder as well."""

    told: Callable[[], dict[str, Any]] = dict

    def statistics(self) -> dict[str, Any]:
        """As `Agent.statistics`, and what its recorder says under ``recorder``."""
        return {**super().statistics(), "recorder": self.told()}
