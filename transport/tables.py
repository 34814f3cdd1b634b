"""Tables of the process: what all its agents share, and a forked child must not.

One rule for all: a child begins with each of them empty, and with locks that nobody holds. What has to be
done to what is in a table (close a copy of a socket, leave a thread alone) is done before, by its `forget`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ..shm import machine

V = TypeVar("V", bound=Hashable)
T = TypeVar("T")

_tables: list[Table] = []

unforked = threading.RLock()
"""Held for a moment by whoever does what a fork must not come between."""


class Table:
    """A table of the process; made once, by the module that it is of.

    Attributes:
        lock: guards what the subclass keeps.
    """

    lock: threading.Lock

    def __init__(self) -> None:
        _tables.append(self)
        self.begin()

    def begin(self) -> None:
        """Make it empty, with a new lock; when it is made, and in each forked child."""
        self.lock = threading.Lock()

    def forget(self) -> None:
        """In a forked child, before `begin`: let go of what is the parent's."""


class Offers(Table, Generic[T]):
    """What agents of this process offer to others of it, by agent id."""

    def begin(self) -> None:
        """As `Table.begin`."""
        super().begin()
        self._offered: dict[str, T] = {}

    def __contains__(self, agent_id: str) -> bool:
        return agent_id in self._offered

    def offer(self, agent_id: str, thing: T) -> None:
        """An agent offers something from now on."""
        with self.lock:
            self._offered[agent_id] = thing

    def withdraw(self, agent_id: str) -> None:
        """An agent offers nothing more."""
        with self.lock:
            self._offered.pop(agent_id, None)

    def get(self, agent_id: str) -> T | None:
        """What an agent offers; None when it is not here."""
        return self._offered.get(agent_id)


class Leases(Table, Generic[V]):
    """Things that have users: made for the first, given back by the last.

    Attributes:
        things: by key.
    """

    things: dict[Hashable, V]

    def begin(self) -> None:
        """As `Table.begin`."""
        super().begin()
        self.things = {}
        self._users: dict[V, int] = {}

    def lease(self, key: Hashable, make: Callable[[], V]) -> V:
        """The thing of a key; every `lease` needs one `release`. Errors as ``make``."""
        with self.lock:
            thing = self.things.get(key)
            if thing is None:
                thing = self.things[key] = make()
                self._users[thing] = 0
            self._users[thing] += 1
            return thing

    def release(self, thing: V) -> bool:
        """One user less; True when it was the last: the caller ends the thing, which nobody gets any more."""
        with self.lock:
            if thing not in self._users:
                return False  # the parent's of this forked process
            self._users[thing] -= 1
            if self._users[thing]:
                return False
            del self._users[thing]
            for key in [key for key, each in self.things.items() if each is thing]:
                del self.things[key]
            return True


def _after_fork() -> None:
    unforked.release()
    for table in _tables:
        table.forget()
        table.begin()


if machine.FORKS:
    os.register_at_fork(before=unforked.acquire, after_in_parent=unforked.release, after_in_child=_after_fork)
