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

from ...discovery.records import Entry, Place
from ...protocol.errors import PzcError
from .naming import Naming

logger = logging.getLogger("pzc.names")

MOVE_TIMEOUT = 2.0
"""Seconds within which one of an agent's addresses has to answer."""

RETRY = 0.5
"""Seconds until a move that failed is tried again."""


class Follower:
    """One user of one name; made by `follow`.

    Args:
        names: knows where the name is.
        target: the name as it was written.
        endpoint: that is used now.
        entry: what the agent there told of itself.
        move: makes the user use another endpoint; called with the one before, and the new one.

    Attributes:
        entry: what the agent that is used told of itself.
    """

    def __init__(
        self, names: Naming, target: str, endpoint: str, entry: Entry, move: Callable[[str, str], object]
    ) -> None:
        self.target = target
        self._names = names
        self._endpoint = endpoint
        self.entry = entry
        self._move = move
        self._looking = threading.Lock()
        names.followers[self.look] = frozenset(names.places(target))

    def look(self) -> None:
        """Come along, if need be; a helper thread."""
        with self._looking:
            if self.look not in self._names.followers or (entry := self._elsewhere()) is None:
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
        self._names.followers.pop(self.look, None)


def follow(names: Naming, target: str, place: Place, move: Callable[[str, str], object]) -> Follower | None:
    """Report each move of a named agent to another endpoint; None for one that stays.

    Args:
        names: knows where the name is.
        target: the name.
        place: where it is now, from `Naming.resolve`.
        move: called with the endpoint that was used and the new one, in a helper thread; again after a
            PzcError.
    """
    if place.entry is None:
        return None
    follower = Follower(names, target, place.endpoint, place.entry, move)
    names.help(follower.look)  # it may have moved already
    return follower
