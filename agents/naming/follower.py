"""Name followers: whoever uses an agent by its name comes along when that is somewhere else.

::

    heard of the name                                   what happens
    the same agent, at the endpoint that is used        nothing
    the same agent, at other endpoints                  `move`
    another agent, at the endpoint that is used         nothing: whoever asks there notices
    another agent elsewhere, the one before is silent   `move`
    another agent elsewhere, the one before answers     nothing: two agents hold one name
    nobody                                              nothing: it may come back

A move that fails is tried again after `RETRY` seconds, if it is still needed then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from ...discovery.names import Target
from ...discovery.records import Entry
from ...protocol.errors import PzcError

logger = logging.getLogger("pzc.names")

MOVE_TIMEOUT = 2.0
"""Seconds within which one of an agent's addresses has to answer."""

RETRY = 0.5
"""Seconds until a move that failed is tried again."""


class Names(Protocol):
    """Who knows where names are: `Naming`.

    Attributes:
        choose: the address by which an agent is reached, within a time in seconds.
        answers: whether an agent is still at an endpoint.
    """

    choose: Callable[[Entry, float], str]
    answers: Callable[[str, str], bool]

    def places(self, target: str) -> list[Target]:
        """Where a name may be."""
        ...

    def known(self, target: str) -> Entry | None:
        """Who is known by a name now, and can be reached."""
        ...

    def lives(self, entry: Entry) -> bool:
        """Whether an agent is still known under its name."""
        ...

    def help(self, task: Callable[[], object], *, again: bool = False, after: float = 0.0) -> None:
        """Run something that may wait, after some seconds."""
        ...

    def forget(self, follower: Follower) -> None:
        """A follower was closed."""
        ...


class Follower:
    """One user of one name; made by `Naming.follow`.

    Args:
        names: knows where the name is.
        target: the name as it was written.
        endpoint: that is used now.
        entry: what the agent there told of itself.
        move: makes the user use another endpoint; called with the one before, and the new one.

    Attributes:
        places: where the name may be.
        entry: what the agent that is used told of itself.
    """

    def __init__(
        self, names: Names, target: str, endpoint: str, entry: Entry, move: Callable[[str, str], object]
    ) -> None:
        self.target = target
        self.places = frozenset(names.places(target))
        self._names = names
        self._endpoint = endpoint
        self.entry = entry
        self._move = move
        self._looking = threading.Lock()
        self._closed = threading.Event()

    def look(self) -> None:
        """Come along, if need be; a helper thread."""
        with self._looking:
            if self._closed.is_set() or (entry := self._elsewhere()) is None:
                return
            try:
                endpoint = self._names.choose(entry, MOVE_TIMEOUT)
                self._move(self._endpoint, endpoint)
            except PzcError as exc:
                logger.info("%s is not at %s yet: %s", self.target, entry.addresses, exc)
            else:
                logger.info("%s moved from %s to %s", self.target, self._endpoint, endpoint)
                self._endpoint, self.entry = endpoint, entry
                return
        self._names.help(self.look, again=True, after=RETRY)

    def _elsewhere(self) -> Entry | None:
        """The agent to move to; None to stay."""
        now, before = self._names.known(self.target), self.entry
        if now is None:
            return None
        if self._endpoint in now.addresses:
            self.entry = now
            return None
        if now.agent == before.agent:
            return now
        stays = self._names.lives(before) and self._names.answers(before.agent, self._endpoint)
        return None if stays else now

    def close(self) -> None:
        """Stay where it is from now on; never waits."""
        self._closed.set()
        self._names.forget(self)
