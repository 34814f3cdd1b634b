"""Entries: what waits in a subscription's inbox, by broadcast or over a link."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from ...delivery.throttle import Throttle
from ...protocol.notification import Notification, own
from .keys import Keys, every
from .links.arrivals import Arrival, Ledger

Entry = Notification | Arrival


def notification_of(entry: Entry) -> Notification:
    """The notification, decoded now if nobody did before.

    Raises:
        ProtocolError: when it cannot be decoded.
    """
    return entry if isinstance(entry, Notification) else entry.open()


def wanted(entries: Iterable[Entry], key: Keys, throttle: Throttle | None) -> tuple[list[Entry], list[Entry]]:
    """Those of the keys: which a throttle admits, and which it does not; all others are done."""
    found, throttled, keys = list[Entry](), list[Entry](), every(key)
    for entry in entries:
        if key is not None and entry.key not in keys:
            done(entry)
        else:
            (found if throttle is None or throttle.admit(monotonic()) else throttled).append(entry)
    return found, throttled


def done(entry: Entry) -> None:
    """A subscription is done with an entry, and has no reference to its content."""
    if type(entry) is Arrival:
        entry.ledger.consumed(entry)


def own_of(entry: Entry) -> Notification:
    """The notification with a content of its own; the subscription is done with the entry then."""
    ledger = ledger_of(entry)
    try:
        return own(notification_of(entry))
    finally:
        if ledger is None or not isinstance(entry, Arrival):
            done(entry)
        else:
            ledger.returned(entry)


def ledger_of(entry: Entry) -> Ledger | None:
    """Where the end of what came over a link is written down; None for anything else."""
    ledger = entry.ledger if type(entry) is Arrival else None
    return ledger if type(ledger) is Ledger else None


def is_leased(entry: Entry) -> bool:
    """True when the content lies in the publisher's shared memory."""
    return isinstance(entry, Arrival) and entry.leased
