"""Notification: one message of a publisher as user code gets it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol, cast

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from ..protocol.errors import ConfigError, LocalProtocolError


class Tally(Protocol):
    """Where acknowledgements are written down."""

    def acknowledge(self, receipts: Sequence[Receipt], /) -> None:
        """These are done with; those that were before change nothing."""
        ...


class Receipt(Struct, eq=False):
    """What a reader of a mailbox holds of one message until it is done with it.

    Attributes:
        ledger: where its end is written down.
        number: in the mailbox.
        open: it was not acknowledged.
    """

    ledger: Tally
    number: int
    open: bool = True


class Notification(Struct, frozen=True):
    """One message of a publisher.

    Attributes:
        publisher: agent id, or the REP endpoint of an original Pizco.
        name: as the publisher calls itself, possibly empty.
        topic: within the publisher.
        key: what it is about within the topic, mostly empty.
        sequence: the topic's number, from 1; 0 when it has none.
        epoch: the publisher's start; 0 when it has none.
        sent_at: Unix seconds by the publisher's clock; ``received_at`` when unknown.
        received_at: Unix seconds by this machine's clock.
        content: decoded and shared by all subscriptions of the process: do not change it. An array that
            lies in the publisher's shared memory is read-only, and the publisher cannot use that memory
            again while it, or a view of it, is kept. None for raw subscriptions, which do not decode.
        key_id: key that signed it, empty when unsigned.
        frames: the five frames as they came, for raw subscriptions only.
        initial: the publisher kept it and it was published before the subscription began.
        size: bytes of the encoded content; 0 for one that was published in this process and came by a link.
        receipt: what `acknowledge` goes to; None where nothing needs to be acknowledged.
        type: what the publisher had said that the topic's messages are when it was subscribed to; empty for
            nothing.
        partition: of the publisher's name; empty for the usual one, and for an original Pizco.
    """

    publisher: str
    name: str
    topic: str
    key: str
    sequence: int
    epoch: int
    sent_at: float
    received_at: float
    content: Any
    key_id: str = ""
    frames: tuple[bytes, ...] = ()
    initial: bool = False
    size: int = 0
    receipt: Receipt | None = None
    type: str = ""
    partition: str = ""

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in _UNSHOWN)
        return f"Notification({', '.join(shown)})"

    def acknowledge(self) -> None:
        """Say that it is done with: its publisher may forget it.

        Any thread, in any order, once or often. Only subscriptions with ``manual_ack`` need it; else nothing
        happens. `acknowledge` is for many.
        """
        receipt = self.receipt
        if receipt is not None:
            receipt.ledger.acknowledge((receipt,))


_UNSHOWN = ("frames", "receipt")


def acknowledge(notifications: Iterable[Notification]) -> None:
    """`Notification.acknowledge` each of many, much cheaper.

    Args:
        notifications: of any subscriptions, in any order.

    Raises:
        ConfigError: for a single one.
    """
    if isinstance(cast("object", notifications), Notification):
        raise ConfigError("acknowledge takes several notifications; one has notification.acknowledge()")
    receipts: dict[Tally, list[Receipt]] = {}
    for notification in notifications:
        receipt = notification.receipt
        if receipt is not None:
            receipts.setdefault(receipt.ledger, []).append(receipt)
    for ledger, some in receipts.items():
        ledger.acknowledge(some)


_UNCHANGING = frozenset({bytes, str, int, float, complex, bool, type(None)})

Callback = Callable[[Notification], object]


def own(notification: Notification) -> Notification:
    """The same with a content of its own."""
    content = notification.content
    if type(content) in _UNCHANGING:
        return notification
    return replace(notification, content=copy.deepcopy(content))


class LetGo:
    """Stands for a content in shared memory after `Subscription.recv_zero_copy` has ended."""

    def __repr__(self) -> str:
        return "<content let go of at the end of recv_zero_copy>"

    def _refuse(self, *_: object) -> NoReturn:
        raise LocalProtocolError(
            "the content was let go of at the end of recv_zero_copy: use it inside, keep a reference to it "
            "(its memory stays in use then), or take a copy with recv()"
        )

    __getitem__ = __iter__ = __len__ = __array__ = _refuse


def let_go(notification: Notification) -> None:
    """Forget the content of a notification that nobody else has."""
    force_setattr(notification, "content", LetGo())
