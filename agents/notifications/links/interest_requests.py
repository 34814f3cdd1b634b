"""InterestRequests: a link's subscriptions become interests of its publisher, which confirms or refuses."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from ....delivery.commands import Batch, Commands
from ....delivery.cursor import Gap
from ....protocol.contents import error_of
from ....protocol.errors import AgentClosed, CallTimeout, PeerLost, PzcError, ReplayedMessage
from ....protocol.link_messages import (
    MAX_ITEMS,
    Applied,
    Command,
    Confirmed,
    Interests,
    LinkMessage,
    Run,
)
from ....transport.peer import Peer
from ...notification import Notification
from ..subscription import Subscription
from .reader_transports import ReaderTransport, expected
from .roster import LinkShare, Roster

logger = logging.getLogger("pzc.links")

RETRY = 0.25
"""Seconds between two attempts."""

_PASSING = (PeerLost, CallTimeout, ReplayedMessage, AgentClosed)  # what the next attempt may overcome


class Asked(NamedTuple):
    """Who is asked, and how.

    Attributes:
        transport: over which.
        peer: the publisher.
        link: its id there.
        epoch: of the publisher.
        read: makes notifications, and gaps, of what is retained.
        begun: called after some subscriptions were confirmed.
    """

    transport: ReaderTransport
    peer: Peer
    link: str
    epoch: int
    read: Callable[[Run], list[Notification | Gap]]
    begun: Callable[[], object]


class InterestRequests:
    """Safe from any thread.

    Args:
        shares: of the link.
        later: runs a function in another thread, ``after`` seconds.
        make: makes a share.
    """

    def __init__(
        self,
        shares: Roster,
        later: Callable[..., object],
        make: Callable[[Subscription, int, Future[None]], LinkShare],
    ) -> None:
        self._shares = shares
        self._make = make
        self._later = later
        self._mutex = threading.Lock()
        self._commands: Commands[Command] = Commands(MAX_ITEMS)
        self._interests = itertools.count(1)
        self._asked: Asked | None = None

    def want(self, subscription: Subscription, confirmed: Future[None]) -> None:
        """One subscription more, ``confirmed`` or refused once that was answered."""
        share = self._make(subscription, next(self._interests), confirmed)
        with self._mutex:
            self._shares.add(share)
            self._commands.want(share.interest, share.command)

    def forget(self, subscription: Subscription) -> bool:
        """One subscription less; False when it had none."""
        with self._mutex:
            share = self._shares.remove(subscription)
            if share is not None:
                self._commands.forget(share.interest)
        if share is not None:
            share.leave()
        return share is not None

    def anew(self) -> None:
        """The publisher knows of no link any more."""
        with self._mutex:
            self._asked = None
            self._commands.anew()

    def attach(self, asked: Asked) -> None:
        """Ask over this transport from now on; nothing is said yet."""
        with self._mutex:
            self._asked = asked
            self._commands.unsure()
        for share in self._shares:
            share.subscription.transport = asked.transport.kind

    def lose(self, transport: ReaderTransport) -> None:
        """A transport is over."""
        with self._mutex:
            if self._asked is not None and self._asked.transport is transport:
                self._asked = None

    def say(self) -> None:
        """Say what is wanted, as far as that was not said, and nothing else is to be answered first."""
        with self._mutex:
            asked = self._asked
            batch = None if asked is None else self._commands.next()
        if asked is None or batch is None:
            return
        commands = [told or Command(interest) for interest, told in batch.commands.items()]
        try:
            answer = asked.transport.ask(Interests(asked.link, batch.number, commands))
        except PzcError as exc:
            self._unsure(asked, exc)
        else:
            answer.add_done_callback(partial(self._on_said, batch, asked))

    def _unsure(self, asked: Asked, error: PzcError) -> None:
        logger.debug("%s was not told of interests: %s", asked.peer.endpoint, error)
        with self._mutex:
            self._commands.unsure()
            again = self._asked is asked
        if again:
            self._later(self.say, after=RETRY)

    def _on_said(self, batch: Batch[Command], asked: Asked, answer: Future[LinkMessage]) -> None:
        refusal: Exception | None = None
        try:
            applied = expected(asked.peer, answer.result(0), Applied)
        except _PASSING as exc:
            return self._unsure(asked, exc)
        except Exception as exc:
            refusal, applied = exc, Applied(batch.number, [Confirmed(each) for each in batch.commands])
        with self._mutex:
            current = self._asked
            if current is None or current.link != asked.link or not self._commands.applied(batch.number):
                return None
        asked.peer.learn(applied.about)
        retained: dict[int, list[Notification | Gap]] = {}
        for run in applied.retained:
            read = asked.read(run)
            for interest in run.interests:
                retained.setdefault(interest, []).extend(read)
        for each in applied.confirmed:
            share = self._shares.at(each.interest)
            if share is not None:
                error = refusal or (error_of(each.code, each.text) if each.code else None)
                self._confirm(share, each, asked, error, retained.get(each.interest, []))
        asked.begun()
        if not self._commands.settled:
            self._later(self.say)
        return None

    def _confirm(
        self,
        share: LinkShare,
        confirmed: Confirmed,
        asked: Asked,
        error: BaseException | None,
        retained: list[Notification | Gap],
    ) -> None:
        if error is not None:
            share.refuse(error)
            return
        self._shares.confirm(share, confirmed.window)
        share.subscription.transport = asked.transport.kind
        share.command.initial = False  # said again, it begins with nothing
        share.begin(asked.epoch, confirmed.lasts, retained=retained)
