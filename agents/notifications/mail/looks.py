"""Looks: what a mailbox does not tell its reader: what is retained, and what messages a topic has."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future

from ....delivery.cursor import Gap
from ....protocol import limits
from ....protocol.bundle import Item
from ....protocol.contents import error_of
from ....protocol.errors import ProtocolError, PzcError
from ....protocol.link_messages import MAX_ITEMS, Applied, Command, Confirmed, Interests
from ....protocol.notification import Notification
from ....protocol.reply import Reply
from ....transport.wire import Protocol
from ..keys import every
from ..links.inward import expected
from .line import Line
from .making import Making
from .place import Place

logger = logging.getLogger("pzc.mail")

Told = tuple[Mapping[str, int], list[Notification | Gap]]
"""The last numbers, and what is retained up to them."""

Begin = Callable[[Told | None], object]
"""Begins a place."""


class Looks:
    """Asks the publisher of a mailbox what a link would be told; I/O thread.

    Args:
        line: to it.
        protocol: of what is retained.
        places: of the mailbox.
    """

    def __init__(self, line: Line, protocol: Protocol, places: Callable[[], Iterable[Place]]) -> None:
        self._line = line
        self._protocol = protocol
        self._places = places
        self._watches = False

    def begin(self, place: Place, begin: Begin) -> None:
        """Begin a place that the publisher has confirmed, once its type was judged."""
        subscription = place.subscription
        retains = subscription.initial and not place.begun
        if not retains and not subscription.type:
            begin(None)
            return
        if subscription.type and not self._watches:
            self._watches = True
            self._line.loop.call_later(limits.current.type_pause, self._watch)

        def told(confirmed: Confirmed | None, applied: Applied | None) -> None:
            if retains and (confirmed is None or applied is None):
                place.refuse(PzcError(f"{self._line.peer.endpoint} did not tell what it retains"))
            elif confirmed is not None and confirmed.code:
                place.refuse(error_of(confirmed.code, confirmed.text))
            elif retains and confirmed is not None and applied is not None:
                begin((confirmed.lasts, self._read(applied)))
            else:  # whoever cannot be asked will be met anew
                begin(None)

        self._ask([place], lambda applied: told(applied and applied.confirmed[0], applied), retains)

    def _watch(self) -> None:
        """A type that is said later is judged then."""
        places = [place for place in self._places() if place.subscription.type][:MAX_ITEMS]
        self._watches = bool(places)
        if self._watches:
            self._line.loop.call_later(limits.current.type_pause, self._watch)
            self._ask(places, lambda applied: self._judge(places, applied))

    @staticmethod
    def _judge(places: list[Place], applied: Applied | None) -> None:
        for each in () if applied is None else applied.confirmed:
            if each.code == "TypeMismatch":
                places[each.interest - 1].refuse(error_of(each.code, each.text))

    def _ask(
        self, places: list[Place], tell: Callable[[Applied | None], object], initial: bool = False
    ) -> None:
        subscriptions = [place.subscription for place in places]
        commands = [
            Command(
                number, each.topic, sorted(every(each.key)) if initial and each.key is not None else None,
                type=each.type, initial=initial,
            )
            for number, each in enumerate(subscriptions, 1)
        ]  # fmt: skip

        def answered(answer: Future[Reply]) -> None:
            applied = None
            try:
                applied = expected(self._line.peer, answer.result(0).content, Applied)
                if len(applied.confirmed) != len(commands):
                    applied = None
            except PzcError as exc:
                logger.debug("%s was asked in vain: %s", self._line.peer.endpoint, exc)
            tell(applied)

        try:
            asked = self._line.ask(Interests("", 1, commands), limits.current.mail_patience)
        except PzcError:
            tell(None)
        else:
            asked.add_done_callback(answered)

    def _read(self, applied: Applied) -> list[Notification | Gap]:
        peer = self._line.peer
        peer.learn(applied.about)
        making = Making(self._protocol, self._line.counters, peer, peer.epoch, self._line.key_id, time.time())
        found: list[Notification | Gap] = []
        for run in applied.retained:
            for row in run.rows:
                item = Item(run.topic, row.number, row.key, row.sent_ms, row.serializer, row.body)
                try:
                    found.append(making.plain(item, initial=True))
                except ProtocolError as exc:
                    logger.warning("%s of %s is lost here: %s", run.topic[:80], peer.endpoint, exc)
                    found.append(Gap(peer.epoch, row.number, row.number))
        return found
