"""Calls of an exposed object, without any agent."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from pzc import Key, Role
from pzc.agents.server.answers import Answers
from pzc.agents.server.coroutines import Coroutines
from pzc.agents.server.exposed import ExposedObject
from pzc.agents.server.tree import Tree
from pzc.protocol.message import Identity

AGENT_ID = "5" * 32


class Asker(NamedTuple):
    """Who calls."""

    agent: str = "a" * 32
    key: Key | None = None

    @property
    def identity(self) -> Identity:
        """Under which handles and streams stand."""
        return Identity(self.key.key_id if self.key else "", self.agent)


class Asked:
    """One call."""

    cancelled = False

    def __init__(self, caller: Asker, can_refer: bool, original: bool) -> None:
        self.id, self.caller, self.can_refer, self.original = "1", caller, can_refer, original


class Presences:
    """Notes what is held, and lets its holders die."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[Identity, Callable[[], None]]] = {}
        self._numbers = itertools.count(1)

    def hold(self, agent: Identity, what: str, release: Callable[[], None]) -> int:
        ticket = next(self._numbers)
        self.held[ticket] = agent, release
        return ticket

    def drop(self, ticket: int) -> None:
        self.held.pop(ticket, None)

    def dies(self, agent: Identity) -> None:
        for holder, release in [*self.held.values()]:
            if holder == agent:
                release()


class Exposure:
    """An exposed object and a way to ask it."""

    def __init__(self, served: object, expose: Any = None, **options: Any) -> None:
        self.presence = Presences()
        self.outcomes: list[Any] = []
        self.tree = Tree(served, expose)
        self.coroutines = Coroutines("")
        presence: Any = self.presence
        self.answers = Answers(
            self.tree, self.coroutines, presence, lambda function: function(), self.keep, lambda *_: None
        )
        self.exposed = ExposedObject(
            self.tree, AGENT_ID, self.coroutines, self.answers, lambda options: None, **options
        )

    def keep(self, call: Any, future: Future[Any], outcome: Callable[[Future[Any]], object]) -> str:
        """Remember what will be answered when a future is done."""
        future.add_done_callback(lambda done: self.outcomes.append(outcome(done)))
        return "1"

    def __call__(
        self,
        action: str,
        options: Any,
        *,
        caller: Asker | None = None,
        can_refer: bool = True,
        original: bool = False,
    ) -> tuple[str, Any]:
        """Kind of the answer and what is in it."""
        call: Any = Asked(caller or Asker(), can_refer, original)
        _, kind, told = self.exposed.act(call, action, options)
        return kind, told

    def get(self, *on: Any, **more: Any) -> Any:
        """What ``get`` gives."""
        return self("get", {"on": on}, **more)[1]

    def run(self, *on: Any, args: Any = (), method: str = "__call__", **more: Any) -> tuple[str, Any]:
        """What ``exec`` gives."""
        return self("exec", {"on": on, "method": method, "args": args}, **more)


def key_of(role: Role) -> Key:
    """A key of that role."""
    return Key(f"a secret of the {role.name.lower()}", role.name.lower(), role)
