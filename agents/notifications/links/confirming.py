"""Confirming: what a reader's interests begin with, and why some are refused."""

from __future__ import annotations

from collections.abc import Collection

from ....delivery.interests import weight
from ....delivery.kept import MAX_BYTES
from ....protocol.errors import PolicyRefused, Refused
from ....protocol.link_messages import MAX_KEYS, Applied, Command, Confirmed, Row, Run
from ..declared import Declared
from ..filters import ANY
from ..retained import RetainedValues
from .mailbox_subscriber import MailboxSubscriber
from .subscriber import Subscriber
from .subscribers import Subscribers
from .topics import Advertised, Wanted

_WANTED = 64 << 20
"""Bytes of the topics and keys that the holders of one key want of one publisher, as `weight` counts them."""


_Alike = tuple[str, Collection[str] | None]


class Answering:
    """The answer to one batch of commands; with the lock of the links.

    Args:
        subscribers: the links.
        retained: what is kept for readers to come.
        declared: what is said of topics.
        subscriber: the reader's; None: nothing is wanted, only told.
        transport: by which was asked, for one without a link.
        lets_wait: the reader may let whoever publishes wait for it.
    """

    def __init__(
        self, subscribers: Subscribers, retained: RetainedValues, declared: Declared,
        subscriber: Subscriber | None, transport: str, lets_wait: bool,
    ) -> None:  # fmt: skip
        self._lets_wait = lets_wait
        self._subscribers = subscribers
        self._retained = retained
        self._declared = declared
        self._subscriber = subscriber
        # Whoever reads a mailbox next may do so from anywhere.
        self._transport = (
            "tcp"
            if isinstance(subscriber, MailboxSubscriber)
            else transport
            if subscriber is None
            else subscriber.kind
        )
        self._found: dict[_Alike, tuple[list[int], list[tuple[str, list[Row]]]]] = {}
        self._others: int | None = None  # bytes of what the other links of the key want
        self._room = MAX_BYTES
        self._known: dict[str, dict[str, int]] = {}

    def obey(self, number: int, said: list[tuple[Command, Wanted | None]]) -> Applied:
        """Have the interests of a batch of that number from now on, and cease those given up."""
        confirmed: list[Confirmed] = []
        for command, wanted in said:
            if wanted is not None:
                confirmed.append(self._confirm(command, wanted))
            elif self._subscriber is not None:
                self._subscriber.cease(command.interest)
        about = self._declared.of(command.topic for command, _ in said)
        return Applied(number, confirmed, self._runs(), about)

    def repeat(self, applied: Applied, said: list[tuple[Command, Wanted | None]]) -> Applied:
        """The same answer once more; what has been replaced since is not retained, and comes by itself."""
        lasts = {told.interest: told.lasts for told in applied.confirmed if not told.code}
        for command, wanted in said:
            if wanted is not None and command.initial and wanted.number in lasts:
                self._retain(wanted)
        runs = [
            Run(run.topic, [interest], [row for row in run.rows if row.number <= lasts[interest][run.topic]])
            for run in self._runs()
            for interest in run.interests
            if run.topic in lasts[interest]
        ]
        return Applied(applied.number, applied.confirmed, runs, applied.about)

    def _runs(self) -> list[Run]:
        return [
            Run(topic, interests, rows) for interests, found in self._found.values() for topic, rows in found
        ]

    def _confirm(self, command: Command, wanted: Wanted) -> Confirmed:
        subscriber, routes = self._subscriber, self._subscribers.routes
        try:
            if subscriber is None:
                routes.about(wanted.topic).check_transport(wanted.topic, self._transport)
            else:
                self._check(subscriber, wanted)
                self._check_size(subscriber, wanted)
            self._declared.judge(wanted.topic, wanted.type)
            if command.initial:
                self._retain(wanted)
        except Refused as exc:
            return Confirmed(wanted.number, code=type(exc).__name__, text=str(exc))
        if subscriber is None:
            return Confirmed(wanted.number, self._lasts(wanted.topic))
        routes.on_asked(wanted.topic)
        return Confirmed(wanted.number, *subscriber.follow(wanted, self._lasts(wanted.topic), routes.window))

    def _lasts(self, topic: str) -> dict[str, int]:
        """The same for all interests of a batch: nothing is published meanwhile."""
        known = self._known.get(topic)
        if known is None:
            known = self._known[topic] = self._subscribers.routes.lasts(topic)
        return known

    def _check(self, subscriber: Subscriber, wanted: Wanted) -> None:
        topic, policy, keeps = wanted.topic, wanted.policy, isinstance(subscriber, MailboxSubscriber)
        if keeps is not (policy.name == "mailbox"):
            raise PolicyRefused(
                f"policy {policy.name} is none of a link that {'keeps' if keeps else 'loses'}"
            )
        if "block" in (policy.name, policy.when_full) and not self._lets_wait:
            raise PolicyRefused(
                "block, and a mailbox with when_full='block', lets publish wait: it takes the role operator; "
                "ask for latest, drop, or a mailbox that drops its oldest, or sign with an operator's key, "
                'which the publisher\'s own is not: call = "NAME" in a keyring, or PZC_KEY'
            )
        about = Advertised() if keeps and topic == ANY else self._subscribers.routes.about(topic)
        about.check(topic, policy, self._transport)

    def _check_size(self, subscriber: Subscriber, wanted: Wanted) -> None:
        if (size := len("".join(wanted.keys or ()).encode())) > MAX_KEYS:
            raise Refused(
                f"the keys of one subscription have at most {MAX_KEYS} bytes, not {size}: ask for all keys"
            )
        if self._others is None:
            key_id, links = subscriber.owner.key_id, self._subscribers.links.values()
            self._others = sum(
                each.queue.size for each in links if each is not subscriber and each.owner.key_id == key_id
            )
        there = self._others + subscriber.queue.size
        topics = max(1, len(self._lasts(wanted.topic)))  # of all topics there is a claim for each
        if there + weight(wanted.topic, wanted.keys) * topics > _WANTED:
            raise Refused(
                f"no room: the topics and keys that this key subscribes to take {there} bytes here already "
                f"(at most {_WANTED}); ask for all keys, or close what is not read"
            )

    def _retain(self, wanted: Wanted) -> None:
        alike = wanted.topic, wanted.keys
        if alike not in self._found:
            found = self._retained.of(wanted.topic, wanted.keys, self._transport)
            size = sum([len(row.body) for _, rows in found for row in rows])
            if size > self._room:
                raise Refused("what is retained is too much to be told together: subscribe to fewer at once")
            self._room -= size
            self._found[alike] = [], found
        self._found[alike][0].append(wanted.number)
