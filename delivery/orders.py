"""Orders: what a subscriber wants of a publisher, said in numbered batches of commands.

::

    batch      event                     next
    none       next, something waits     in flight, with the next number
    in flight  next                      in flight: the same again
               applied (its number)      none; what was refused is wanted no longer
               applied (another number)  in flight
               outdated (by that number) in flight, with a higher number
    any        forget                    none; everything wanted waits, to be said anew

Commands wait while a batch is in flight; of those on a topic and key only the last one is said. The first
batch of all, and the first one after `forget`, *begins*: what the publisher had is to go with the batch that
*ends*, unless it was said again until then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import islice

from ..protocol import limits
from ..protocol.errors import PolicyRefused
from .mail import Command, Commands, Declined
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
        self._waiting: dict[str, dict[str | None, bool]] = {}  # whether to subscribe, by key and topic
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

    def order(self, topic: str, keys: Collection[str | None], subscribe: bool) -> None:
        """Subscribe to keys of a topic or unsubscribe from them, after all that was said before.

        Raises:
            PolicyRefused: when these were more than any mailbox may have; nothing was done.
        """
        if subscribe and self._count + len(keys) > limits.current.mail_subscriptions:
            self._check_room(topic, keys)
        self._want(topic, keys, subscribe)
        self._waiting.setdefault(topic, {}).update(dict.fromkeys(keys, subscribe))

    def _want(self, topic: str, keys: Collection[str | None], subscribe: bool) -> None:
        wanted = self._wanted.setdefault(topic, {})
        self._count -= len(wanted)
        if subscribe:
            wanted.update(dict.fromkeys(keys))
        else:
            for key in keys:
                wanted.pop(key, None)
        self._count += len(wanted)
        if not wanted:
            del self._wanted[topic]

    def _check_room(self, topic: str, keys: Iterable[str | None]) -> None:
        total = self._count + len(set(keys).difference(self._wanted.get(topic, ())))
        if total > limits.current.mail_subscriptions:
            raise PolicyRefused(
                f"a mailbox has at most {limits.current.mail_subscriptions} topics and keys, not {total}: "
                "ask for all keys"
            )

    def forget(self) -> None:
        """The publisher knows nothing any more: everything that is wanted is to be said anew."""
        self._waiting = {topic: dict.fromkeys(keys, True) for topic, keys in self._wanted.items()}
        self._anew = self._saying = True
        self.flying = None

    def next(self, policy: Policy) -> Commands | None:
        """The batch in flight, or a new one; None when there is nothing to say."""
        if self.flying is None and (self._waiting or self._anew):
            commands = self._take()
            self._number += 1
            ends = self._saying and not self._waiting
            self.flying = Commands(self._number, commands, policy, self._anew, ends)
            self._anew = False
        return self.flying

    def _take(self) -> list[Command]:
        """As many of those that wait as go into a batch."""
        commands = list[Command]()
        while self._waiting and len(commands) < limits.current.mail_commands:
            topic, waiting = next(iter(self._waiting.items()))
            some = list(islice(waiting.items(), limits.current.mail_commands - len(commands)))
            if len(some) == len(waiting):
                del self._waiting[topic]
            else:
                for key, _ in some:
                    del waiting[key]
            commands += [Command(topic, key, subscribe) for key, subscribe in some]
        return commands

    def applied(self, number: int, refused: Iterable[tuple[int, str]] = ()) -> list[Declined]:
        """A batch was applied, but for commands that were refused; any but the one in flight was so before.

        Returns:
            What is wanted no longer, because it was refused and not said again since.
        """
        flying = self.flying
        if flying is None or flying.number != number:
            return []
        self._saying = self._saying and not flying.ends
        self.flying = None
        commands = dict(enumerate(flying.commands))
        told = [Declined(commands[place], reason) for place, reason in refused if place in commands]
        waiting = self._waiting
        declined = [each for each in told if each.command.key not in waiting.get(each.command.topic, ())]
        for command, _ in declined:
            self._want(command.topic, (command.key,), False)
        return declined

    def outdated(self, last: int) -> None:
        """The publisher has applied a batch ``last``; the one in flight gets a number above it."""
        if self.flying is not None and self.flying.number <= last:
            self._number = last + 1
            self.flying = replace(self.flying, number=self._number)
