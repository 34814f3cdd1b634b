"""Asking: one link's subscriptions become interests of its publisher, which confirms or refuses each."""

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
from ....protocol.notification import Notification
from ....protocol.peer import Peer
from ..subscription import Subscription
from .places import Place
from .reader_transports import ReaderTransport, expected
from .roster import Roster

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


class Asking:
    """Safe from any thread.

    Args:
        places: of the link.
        later: runs a function in another thread, ``after`` seconds.
        make: makes a place.
    """

    def __init__(
        self,
        places: Roster,
        later: Callable[..., object],
        make: Callable[[Subscription, int, Future[None]], Place],
    ) -> None:
        self._places = places
        self._make = make
        self._later = later
        self._mutex = threading.Lock()
        self._commands: Commands[Command] = Commands(MAX_ITEMS)
        self._interests = itertools.count(1)
        self._asked: Asked | None = None

    def want(self, subscription: Subscription, confirmed: Future[None]) -> None:
        """One subscription more, ``confirmed`` or refused once that was answered; errors as `Roster.add`."""
        place = self._make(subscription, next(self._interests), confirmed)
        with self._mutex:
            self._places.add(place)
            self._commands.want(place.interest, place.command)

    def forget(self, subscription: Subscription) -> bool:
        """One subscription less; False when it had none."""
        with self._mutex:
            place = self._places.remove(subscription)
            if place is not None:
                self._commands.forget(place.interest)
        if place is not None:
            place.leave()
        return place is not None

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
        for place in self._places:
            place.subscription.transport = asked.transport.kind

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
            place = self._places.at(each.interest)
            if place is not None:
                error = refusal or (error_of(each.code, each.text) if each.code else None)
                self._confirm(place, each, asked, error, retained.get(each.interest, []))
        asked.begun()
        if not self._commands.settled:
            self._later(self.say)
        return None

    def _confirm(
        self,
        place: Place,
        confirmed: Confirmed,
        asked: Asked,
        error: BaseException | None,
        retained: list[Notification | Gap],
    ) -> None:
        if error is not None:
            place.refuse(error)
            return
        self._places.confirm(place, confirmed.window)
        place.subscription.transport = asked.transport.kind
        place.command.initial = False  # said again, it begins with nothing
        place.begin(asked.epoch, confirmed.lasts, retained=retained)
