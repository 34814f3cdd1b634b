"""Farewell: the end of a publisher's links, when it is stopped.

::

    at the stop, a reader                                     what happens
    has a transport, or opens its first one, and something waits    it goes, as fast as the reader takes it
    for it, is kept, is just being sent, or is not yet received
    still has not taken everything when `TELLING` begins      what has not gone is dropped
    was told of everything but drops at the end of a topic    it is told of them, in the time that is left

What a reader has received it hands on, whatever becomes of the link. One that has no transport is not
waited for, nor one of a mailbox that polls, and has not for a while.
"""

from __future__ import annotations

import math
import time

from .mailbox_subscriber import MailboxSubscriber
from .subscriber import Subscriber
from .subscribers import Subscribers
from .transports import PollTransport, UnixTransport

_FAREWELL = 1.0
"""Seconds that the stop of a publisher waits for the readers of its links."""


TELLING = 0.25
"""Part of that time in which nothing but losses goes, behind what is on its way."""

_LOOK = 0.005
"""Seconds after which it looks again, unless something was acknowledged."""


def bid(subscribers: Subscribers) -> None:
    """Send what waits for the readers of a publisher's links; any thread but the I/O thread."""
    timeout = _FAREWELL
    deadline = time.monotonic() + timeout
    with subscribers.lock:
        owing = [subscriber for subscriber in subscribers.links.values() if _owes(subscriber)]
    while owing:
        left = deadline - time.monotonic()
        for subscriber in owing:
            _send(subscribers, subscriber, left <= TELLING * timeout)
        if left <= 0:
            return
        with subscribers.lock:
            owing = [subscriber for subscriber in owing if _owes(subscriber)]
            if owing:
                subscribers.changed.wait(_LOOK)


def _owes(subscriber: Subscriber) -> bool:
    """Whether its reader, which can be reached, has not got or been told of everything; with the lock."""
    transport = subscriber.transport
    if transport is None and subscriber.was_reached:
        return False
    if (
        isinstance(subscriber, MailboxSubscriber)
        and isinstance(transport, PollTransport)
        and not (transport.ready or subscriber.fetches(time.monotonic()))
    ):
        return False  # what it keeps for a reader that does not ask is lost
    return (
        subscriber.sending.locked()  # first: what somebody is sending is on its way when that is over
        or subscriber.queue.behind
        or subscriber.waiting > 0
        or (isinstance(transport, UnixTransport) and not transport.drained)
    )


def _send(subscribers: Subscribers, subscriber: Subscriber, late: bool) -> None:
    with subscribers.lock:
        if late:
            subscriber.give_up()
        subscriber.pull()
    subscriber.flush()
    if not subscriber.waiting:
        subscriber.beat(math.inf)
