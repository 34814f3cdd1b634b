"""Handles: objects that methods returned, which the server keeps as long as a client uses them.

A client gets the same handle each time that the same object is returned to it, and releases it as often.
No other client can use it. What a dead client held is freed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

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
class _Handle:
    id: str
    thing: object
    identity: Identity
    lane: int
    times: int = 1
    ticket: int = 0


class Handles:
    """The handles of one server; safe from any thread.

    Args:
        presence: reports dead clients.
        lanes: where the objects are used, so also where the last reference to one is dropped.
    """

    def __init__(self, presence: Presence, lanes: Sequence[Lane]) -> None:
        self._presence = presence
        self._lanes = lanes
        self._lock = threading.Lock()
        self._by_id: dict[str, _Handle] = {}
        self._by_object: dict[tuple[Identity, int], _Handle] = {}
        self._counts: Counter[str] = Counter()  # by key

    def __len__(self) -> int:
        return len(self._by_id)

    def keep(self, thing: object, identity: Identity, lane: int) -> str:
        """Keep an object for a client; returns the id of its handle.

        Args:
            thing: the object.
            identity: of the client.
            lane: number of the lane in which the object is used.

        Raises:
            Refused: when the clients of its key have `limits.handles`.
        """
        with self._lock:
            handle = self._by_object.get((identity, id(thing)))
            if handle is not None:
                handle.times += 1
                return handle.id
            if self._counts[identity.key_id] >= limits.current.handles:
                raise Refused(
                    f"this key holds {limits.current.handles} objects that methods of this server returned: "
                    "let go of some"
                )
            handle = _Handle(new_handle(lane), thing, identity, lane)
            handle.ticket = self._presence.hold(identity, "handle", partial(self._forget, handle))
            self._by_id[handle.id] = self._by_object[identity, id(thing)] = handle
            self._counts[identity.key_id] += 1
            return handle.id

    def find(self, handle_id: str, identity: Identity) -> object:
        """The object of a client's handle.

        Raises:
            Refused: when the client has no such handle.
        """
        handle = self._by_id.get(handle_id)
        if handle is None or handle.identity != identity:
            raise Refused("this object is kept no more: its handle was released, or the server restarted")
        return handle.thing

    def look(self, handle_id: str) -> object:
        """The object of anybody's handle, to see its marks alone; `MISSING` when it is not kept."""
        handle = self._by_id.get(handle_id)
        return MISSING if handle is None else handle.thing

    def release(self, handles: object, identity: Identity) -> None:
        """Release handles of a client, each as often as it is listed; unknown ones are free already.

        Raises:
            Refused: for anything but a list of ids.
        """
        ids = as_list(handles)
        if not ids or len(ids) > limits.current.handles or not all(isinstance(each, str) for each in ids):
            raise Refused(f"handles are released by their ids, not by {shown(handles)}")
        found = [each for each in map(self._by_id.get, ids) if each and each.identity == identity]
        for lane in {each.lane for each in found}:  # calls that came before the release still find the object
            self._lanes[lane].run(partial(self._release, [each for each in found if each.lane == lane]))

    def _release(self, handles: list[_Handle]) -> None:
        for handle in handles:
            with self._lock:
                handle.times -= 1
            if not handle.times:
                self._remove(handle)
                handle.thing = None
        handles.clear()

    def _remove(self, handle: _Handle) -> None:
        with self._lock:
            if self._by_id.pop(handle.id, None) is None:
                return
            del self._by_object[handle.identity, id(handle.thing)]
            self._counts[handle.identity.key_id] -= 1
        self._presence.drop(handle.ticket)

    def _forget(self, handle: _Handle) -> None:
        """Free an object whose client is dead."""
        self._remove(handle)
        self._lanes[handle.lane].run(partial(setattr, handle, "thing", None))

    def close(self) -> None:
        """Free every object."""
        for handle in list(self._by_id.values()):
            self._forget(handle)
