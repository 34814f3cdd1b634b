"""Handles: objects that methods returned, which a client uses as long as it holds them.

::

    object     event                                              next
    -          a method returns it to a client                    kept, under an id of its own for that client
    kept       returned to the same client again                  kept; to be released once more
    kept       released as often as it was returned               free
    kept       the client died, or the server ends                free

A client is a key and an agent. No other client can use its handles, nor learn that there are any.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...protocol import limits
from ...protocol.contents import as_list
from ...protocol.errors import Refused
from ...protocol.message import Identity
from ...protocol.shown import shown
from .lane import Lane
from .members import MISSING
from .presence import Presence
from .tree import new_handle


@dataclass(eq=False, slots=True)
class _Kept:
    id: str
    thing: object
    lane: int
    times: int = 1


@dataclass(eq=False, slots=True)
class _Client:
    ticket: int = 0
    by_id: dict[str, _Kept] = field(default_factory=dict)
    by_object: dict[int, _Kept] = field(default_factory=dict)


class Handles:
    """What one server keeps for its clients; safe from any thread.

    Args:
        presence: says when a client is dead.
        lanes: in which its objects are used: the last reference to one may be the one here.
    """

    def __init__(self, presence: Presence, lanes: Sequence[Lane]) -> None:
        self._presence = presence
        self._lanes = lanes
        self._lock = threading.Lock()
        self._clients: dict[Identity, _Client] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return sum(self._counts.values())

    def keep(self, thing: object, identity: Identity, lane: int) -> str:
        """The id of the handle that a client has of an object from now on.

        Args:
            thing: the object.
            identity: of the client.
            lane: number of the one in which it is used.

        Raises:
            Refused: when the holders of its key have `limits.handles`.
        """
        with self._lock:
            client = self._clients.get(identity)
            if client is not None and (kept := client.by_object.get(id(thing))) is not None:
                kept.times += 1
                return kept.id
            if self._counts[identity.key_id] >= limits.current.handles:
                raise Refused(
                    f"this key holds {limits.current.handles} objects that methods of this server returned: "
                    "let go of some"
                )
            if client is None:
                client = _Client(self._presence.hold(identity, "handle", partial(self.forget, identity)))
                self._clients[identity] = client
            kept = _Kept(new_handle(lane), thing, lane)
            client.by_id[kept.id] = client.by_object[id(thing)] = kept
            self._counts[identity.key_id] += 1
            return kept.id

    def find(self, handle: str, identity: Identity) -> Any:
        """What a client has a handle of.

        Raises:
            Refused: when it has none of that id.
        """
        client = self._clients.get(identity)
        kept = None if client is None else client.by_id.get(handle)
        if kept is None:
            raise Refused("this object is kept no more: its handle was released, or the server restarted")
        return kept.thing

    def look(self, handle: str) -> object:
        """What a handle is for, whoever has it, to see its marks alone; `MISSING` when it is kept no more."""
        for client in list(self._clients.values()):
            if (kept := client.by_id.get(handle)) is not None:
                return kept.thing
        return MISSING

    def release(self, handles: object, identity: Identity) -> None:
        """A client lets go of some, once for each time that an id is told; unknown ones are free already.

        Raises:
            Refused: for what is no list of ids.
        """
        ids = as_list(handles)
        if not ids or len(ids) > limits.current.handles or not all(isinstance(each, str) for each in ids):
            raise Refused(f"handles are released by their ids, not by {shown(handles)}")
        with self._lock:
            client = self._clients.get(identity)
            known = [] if client is None else [client.by_id[each] for each in ids if each in client.by_id]
        self._in_turn(partial(self._let_go, identity), known)

    def _in_turn(self, end: Callable[[list[_Kept]], None], kept: list[_Kept]) -> None:
        """End what is kept in the lanes where it is used."""
        for lane in {each.lane for each in kept}:
            self._lanes[lane].run(partial(end, [each for each in kept if each.lane == lane]))

    def _let_go(self, identity: Identity, released: list[_Kept]) -> None:
        """In the turn of the release: calls that came before it have found what they are for."""
        with self._lock:
            client = self._clients.get(identity)
            if client is None:
                return
            for kept in released:
                kept.times -= 1
                if not kept.times and client.by_id.get(kept.id) is kept:
                    del client.by_id[kept.id], client.by_object[id(kept.thing)]
                    self._counts[identity.key_id] -= 1
            empty = not client.by_id
            if empty:
                del self._clients[identity]
        if empty:
            self._presence.drop(client.ticket)
        released.clear()

    def forget(self, identity: Identity) -> None:
        """A client is dead."""
        with self._lock:
            client = self._clients.pop(identity, None)
            if client is None:
                return
            self._counts[identity.key_id] -= len(client.by_id)
        self._presence.drop(client.ticket)
        self._in_turn(_drop, [*client.by_id.values()])

    def close(self) -> None:
        """Nothing is kept any more."""
        for identity in list(self._clients):
            self.forget(identity)


def _drop(free: list[_Kept]) -> None:
    for kept in free:
        kept.thing = None
