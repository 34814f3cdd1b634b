"""What publishers keep for a reader, as they tell it: nothing is taken by asking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from ...agents import Agent, Merged, Subscription
from ...protocol.errors import CallTimeout, PeerLost, PzcError

ASK = 2.0
"""Seconds for a publisher to say what its mailbox holds."""

_AT_ONCE = 16
_TRIES = 3

Named = tuple[str, Subscription]
"""What was subscribed to, as it was named."""


def sources(subscriptions: Iterable[Named]) -> set[str]:
    """Endpoints and names of all publishers that keep a mailbox for the reader."""
    found: set[str] = set()
    for named, subscription in subscriptions:
        if isinstance(subscription, Merged):
            found.update(subscription.sources)
        elif subscription.manual_ack:  # one without a mailbox has nothing to tell
            found.add(named)
    return found


def kept(agent: Agent, publisher: str, mailbox: str, timeout: float) -> tuple[int, int]:
    """Messages that a publisher keeps for a reader, and those that are over: acknowledged or lost.

    Raises:
        PzcError: when it does not answer.
        KeyError, TypeError: for a publisher without mailboxes.
    """
    told = agent.request(publisher, {"pzc": "statistics"}, timeout)
    own = [each for each in told["mailboxes"] if each["reader"] == mailbox]
    return sum(each["waiting"] for each in own), sum(each["delivered"] + each["evicted"] for each in own)


class Backlog:
    """Of what mailboxes hold when they are asked for the first time, what they hold later.

    A publisher whose name is gone has ended, and its mailbox with it. One that is only silent may be frozen.

    Args:
        agent: asks.
        mailbox: its name.
        publishers: endpoints and names.

    Attributes:
        left: messages that are not acknowledged, by publisher; None for one that has not answered.
        asked: publishers of which an answer can change that.
    """

    def __init__(self, agent: Agent, mailbox: str, publishers: Iterable[str]) -> None:
        self._agent, self._mailbox = agent, mailbox
        self._goals: dict[str, int] = {}
        self._silent = Counter[str]()
        self.asked = set(publishers)
        self.left: dict[str, int | None] = dict.fromkeys(self.asked)

    def ask(self, timeout: float) -> None:
        """Ask those that had something left, each for so many seconds at most."""
        if self.asked:
            with ThreadPoolExecutor(min(_AT_ONCE, len(self.asked))) as pool:
                list(pool.map(lambda publisher: self._ask(publisher, timeout), [*self.asked]))

    def _ask(self, publisher: str, timeout: float) -> None:
        try:
            waiting, over = kept(self._agent, publisher, self._mailbox, timeout)
        except (CallTimeout, PeerLost):
            self._silent[publisher] += 1
            if self._silent[publisher] == _TRIES:
                self.asked.discard(publisher)
            return
        except (PzcError, KeyError, TypeError):  # it has ended, or keeps nothing
            self.asked.discard(publisher)
            if self.left[publisher] is None and not self._silent[publisher]:
                del self.left[publisher]
            return
        goal = self._goals[publisher] = min(self._goals.get(publisher, waiting + over), waiting + over)
        self.left[publisher] = goal - over
        if over >= goal:
            self.asked.discard(publisher)
            del self.left[publisher]
