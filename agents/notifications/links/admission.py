"""Admission: who is waited for before something is published, and what happens when that takes too long."""

from __future__ import annotations

import math
import threading
import time

from ....delivery.claims import Claim, Interest
from ....protocol import limits
from ....protocol.errors import AgentClosed, CallTimeout
from ....transport.counters import Counters
from ....transport.loop import Loop
from .encoding import Encoding
from .publication import Publication
from .subscriber import Subscriber


class Admission:
    """Safe from any thread.

    Args:
        loop: whose thread waits for nobody.
        changed: on the lock of all links, when there may be room.
        encoding: encodes what has to be measured.
        counters: where timeouts are counted.

    Attributes:
        closed: nobody is waited for any more.
    """

    def __init__(
        self, loop: Loop, changed: threading.Condition, encoding: Encoding, counters: Counters
    ) -> None:
        self._loop = loop
        self._changed = changed
        self._encoding = encoding
        self._counters = counters
        self.closed = False

    def admit(self, publication: Publication) -> bool:
        """Whether every reader that is waited for seems to have room; any thread."""
        if any(subscriber.waits(publication.published.topic) for subscriber in publication.route.mailboxes):
            publication.mail = publication.mail or self._encoding.copy(publication.published)
        return self.has_room(publication)  # without the lock: it is asked again with it

    def has_room(self, publication: Publication) -> bool:
        """Whether nobody who is waited for is full; with the lock."""
        if not publication.route.waits:
            return True
        topic, key = publication.published.topic, publication.published.key
        blocked: list[tuple[Subscriber, Claim]] = [
            (subscriber, interest)
            for subscriber in publication.route.subscribers
            if not subscriber.ended
            for interest in subscriber.queue.matching(topic, key)
            if interest.is_full
        ]
        for subscriber in publication.route.mailboxes if publication.mail else ():
            if not subscriber.ended:
                blocked += [
                    (subscriber, each)
                    for each in subscriber.queue.full(
                        subscriber.queue.matching(topic, key), key, publication.size
                    )
                ]
        publication.blocked = tuple(blocked)
        return not blocked

    def wait(self, publication: Publication) -> None:
        """Wait until no window is full, or the time of one is over; no lock may be held.

        Raises:
            CallTimeout: when that reader's policy says so; nothing was published.
            AgentClosed: when the agent is stopped meanwhile.
        """
        for subscriber, _ in publication.blocked:
            subscriber.flush()
        since = -math.inf if self._loop.in_thread() else publication.since
        with self._changed:
            while not self.closed:
                now, room = time.monotonic(), self.has_room(publication)
                blocked = publication.blocked
                due = [each for each in blocked if since + _timeout(each[1]) <= now]
                if due or room:
                    break
                until = min(since + _timeout(interest) for _, interest in blocked)
                self._changed.wait(min(until - now, _LONGEST))
            else:
                raise AgentClosed("the agent was stopped while a publication waited for its readers")
        if due:
            self._counters.add("publish_timeouts")
            raise _timed_out(publication.published.topic, *due[0])


def _timed_out(topic: str, subscriber: Subscriber, interest: Claim) -> CallTimeout:
    seconds = _timeout(interest)
    if isinstance(interest, Interest):
        return CallTimeout(
            f"agent {subscriber.owner.short} is not done with {interest.held} messages of "
            f"{interest.topic!r} after {seconds:g} s; nothing was published"
        )
    return CallTimeout(
        f"the mailbox of {subscriber.owner.short} has no room for a message of {topic!r} after "
        f"{seconds:g} s; nothing was published"
    )


def _timeout(interest: Claim) -> float:
    """Seconds that whoever publishes waits for it."""
    if interest.policy.name == "mailbox":
        return limits.current.mail_block
    return interest.policy.timeout or 0.0


_LONGEST = 1.0  # nothing but a lost wake-up would ever need it
