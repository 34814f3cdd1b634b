"""Orders: what a subscriber wants of a publisher, said in numbered batches of commands.

::

    batch      event                     next
    none       next, something waits     in flight, with the next number
    in flight  next                      in flight: the same again
               applied (its number)      none
               applied (another number)  in flight
               outdated (by that number) in flight, with a higher number
    any        forget                    none; everything wanted waits, to be said anew

Commands wait while a batch is in flight; the last one on a topic and key is the one that is said. The first
batch of all, and the first one after `forget`, *begins*: what the publisher had is to go with the batch that
*ends*, unless it was said again until then.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from .mail import MAX_COMMANDS, Command, Commands
from .policies import Policy


class Orders:
    """What is wanted, and the batches of commands that say so: one in flight, the last word wins.

    Attributes:
        flying: the batch in flight.
    """

    __slots__ = ("_anew", "_count", "_number", "_saying", "_waiting", "_wanted", "flying")

    def __init__(self) -> None:
        self._wanted: dict[str, dict[str | None, None]] = {}  # keys by topic
        self._count = 0
        self._waiting: dict[tuple[str, str | None], bool] = {}
        self._number = 0
        self._anew = self._saying = True
        self.flying: Commands | None = None

    def __len__(self) -> int:
        """The number of topics and keys that are wanted."""
        return self._count

    @property
    def settled(self) -> bool:
        """Whether the publisher knows everything."""
        return not self._waiting and self.flying is None and not self._saying

    def order(self, command: Command) -> None:
        """Subscribe or unsubscribe, after all that was said before."""
        topic, key, subscribe, _ = command
        keys = self._wanted.setdefault(topic, {})
        self._count += subscribe - (key in keys)
        if subscribe:
            keys[key] = None
        else:
            keys.pop(key, None)
            if not keys:
                del self._wanted[topic]
        self._waiting.pop((topic, key), None)
        self._waiting[topic, key] = subscribe

    def forget(self) -> None:
        """The publisher knows nothing any more: everything that is wanted is to be said anew."""
        self._waiting = {(topic, key): True for topic, keys in self._wanted.items() for key in keys}
        self._anew = self._saying = True
        self.flying = None

    def next(self, policy: Policy) -> Commands | None:
        """The batch in flight, or a new one; None when there is nothing to say."""
        if self.flying is None and (self._waiting or self._anew):
            entities = list(islice(self._waiting.items(), MAX_COMMANDS))
            for entity, _ in entities:
                del self._waiting[entity]
            commands = [Command(topic, key, subscribe) for (topic, key), subscribe in entities]
            self._number += 1
            ends = self._saying and not self._waiting
            self.flying = Commands(self._number, commands, policy, self._anew, ends)
            self._anew = False
        return self.flying

    def applied(self, number: int) -> None:
        """A batch was applied; any but the one in flight was so before."""
        if self.flying is not None and self.flying.number == number:
            self._saying = self._saying and not self.flying.ends
            self.flying = None

    def outdated(self, last: int) -> None:
        """The publisher has applied a batch ``last``; the one in flight gets a number above it."""
        if self.flying is not None and self.flying.number <= last:
            self._number = last + 1
            self.flying = replace(self.flying, number=self._number)
