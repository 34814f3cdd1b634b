"""Answers: how what a call gave is told: as a copy, a reference, a stream, or a future; or refused."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, cast

from ...protocol.contents import PS, RETURN, raised, shown
from ...protocol.errors import CallCancelled, MemberRefused, Refused, SerializeError
from ...protocol.paths import Handle, Path
from ...protocol.values import PLAIN, first_reference, told
from ..compat.pizco import PizcoClients
from .call import Call
from .coroutines import Coroutines
from .descriptions import about
from .handles import Handles
from .lane import Lane
from .marks import Member
from .presence import Presence
from .reply_cache import ReplyCache
from .streams import Streams, is_stream
from .tree import Tree

T = TypeVar("T")

Message = tuple[str, str, Any]

NOT_IN_A_BATCH = "a batch cannot hold futures and streams: call that method by itself"


class Answers:
    """Tells results, and keeps what stays here of them.

    Args:
        tree: what is served.
        coroutines: runs coroutines that methods gave.
        presence: says which clients are dead.
        lanes: in which it is used.
        cache: keeps the futures that calls gave.
        pizco: answers callers without sessions.
    """

    def __init__(
        self,
        tree: Tree,
        coroutines: Coroutines,
        presence: Presence,
        lanes: Sequence[Lane],
        cache: ReplyCache,
        pizco: PizcoClients,
    ) -> None:
        self._tree = tree
        self._coroutines = coroutines
        self._cache = cache
        self._pizco = pizco
        self.handles = Handles(presence, lanes)
        tree.kept = self.handles.look
        self.streams = Streams(lanes, coroutines, presence, self.item)

    def of(self, call: Call, result: Any, member: Member, here: Path | None = None) -> Message:
        """The answer to a call.

        Args:
            call: the call.
            result: what it gave.
            member: what was called.
            here: path under which the result can be found, if it has one.
        """
        if type(result) in PLAIN:
            return PS, RETURN, result
        if inspect.iscoroutine(result):
            return self.of(call, self._coroutines.run(result), member, here)
        if call.action == "batch" and (is_stream(result) or isinstance(result, Future)):
            raise Refused(NOT_IN_A_BATCH)
        if call.oneway:  # nobody would let go of what is kept
            return PS, RETURN, None
        if not call.caller.native:
            return self._pizco.answer(call.id, result)
        if first_reference(result) is None:
            return PS, RETURN, result
        if call.cancelled:  # likewise
            raise CallCancelled(f"{member.text} was cancelled, and what it gave is not kept")
        if is_stream(result):
            return PS, "stream", {"id": self.streams.open(result, call, member)}
        if isinstance(result, Future):
            future = cast("Future[Any]", result)
            outcome = partial(self._outcome, call, member)
            return PS, "future_register", self._cache.register(call, future, outcome)
        if not call.can_refer:
            return PS, RETURN, by_value(result, member.text)
        return PS, "reference", self._referred(call, result, member, here)

    def _outcome(self, call: Call, member: Member, future: Future[Any]) -> Message:
        """The answer that a finished future is."""
        try:
            error = future.exception()
            return raised(error) if error is not None else self.of(call, future.result(), member)
        except BaseException as exc:  # whoever waits for the outcome has to get one
            return raised(exc)

    def _referred(self, call: Call, thing: object, member: Member, here: Path | None) -> dict[str, Any]:
        """What is told of an object that stays here, by its path or a handle."""
        if here is not None or thing is self._tree.root:
            return about(thing, here or ())
        handle = self.handles.keep(thing, call.caller.identity, member.lane)
        return {**about(thing, (Handle(handle),)), "handles": [handle]}

    def item(self, call: Call, item: Any, member: Member, here: Path | None = None) -> tuple[Any, Any]:
        """An item of a list or stream: its value and None, or None and what is told of it."""
        if type(item) in PLAIN or first_reference(item) is None:
            return item, None
        if not call.can_refer:
            return by_value(item, member.text), None
        return None, self._referred(call, item, member, here)

    def items(self, call: Call, items: list[Any], member: Member, here: Path | None) -> list[tuple[Any, Any]]:
        """As `item`, all that a list has, which can be found under ``here``; when one fails, none is kept."""
        made: list[tuple[Any, Any]] = []
        try:
            for number, each in enumerate(items):
                made.append(self.item(call, each, member, None if here is None else (*here, (number,))))
        except BaseException:
            if handles := [handle for _, refers in made if refers for handle in refers.get("handles", ())]:
                self.handles.release(handles, call.caller.identity)
            raise
        return made


def by_value(value: T, name: object, *, read: bool = False) -> T:
    """A value of a served object, to be copied to a caller.

    Args:
        value: what it has or gave.
        name: of the member.
        read: it is an attribute, and nothing ran.

    Raises:
        MemberRefused: for an attribute that is no value (see `pzc.protocol.values`), or holds something that
            is none; it says which member that is, and what to do.
        SerializeError: for the result of a call, likewise.
    """
    if type(value) in PLAIN or (inside := first_reference(value)) is None:
        return value
    what = f"{shown(name)} {'is' if read else 'ran and gave'} {told(value, inside)}"
    raise (MemberRefused if read else SerializeError)(
        f"{what}, which stays at the server: only values are copied. Reach what it has by methods or "
        "properties of the served object, give it a Server of its own, or, when copies are meant, call "
        f"pzc.register_class({type(inside).__qualname__}) at both sides"
    )
