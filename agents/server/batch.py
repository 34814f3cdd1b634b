"""Batch: several actions in one turn, each judged as if it came by itself."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from ...protocol.contents import ps_message, read_ps_message
from ...protocol.errors import CallCancelled, Refused
from ..operations import calls_of
from .answers import NOT_IN_A_BATCH
from .call import Call, raised_in
from .exposed import ExposedObject
from .marks import NOTHING, Member

_RESULTS = ("return", "remote", "reference")


def run_batch(
    call: Call,
    options: dict[str, Any],
    check: Callable[[Call, str, dict[str, Any], Member], object],
    exposed: ExposedObject,
    note: Callable[[Call, Any, float], object] | None,
) -> Any:
    """Run the calls of a batch up to the first that raises, or to its cancellation; in its turn.

    What is to follow a cancelled call follows that of the one that ran last: the call stands for it then.

    Args:
        call: that carried the batch.
        options: of the batch.
        check: judges an action by its role and the lock.
        exposed: does it.
        note: told each of the calls, its answer, and the seconds that it ran; None for nobody.
    """
    results: list[Any] = []
    refs: list[Any] = []
    whole = call.member
    shared = {"lock": options["lock"]} if "lock" in options else {}
    for action, inner in calls_of(options):
        given, member = {**inner, **shared}, NOTHING
        began = call.since if note is None else monotonic()
        try:
            member = exposed.unnamed(action, given) if action == "next" else exposed.member(given)
            if member.lane != call.member.lane:
                raise Refused("the calls of a batch are of one object, where each has a lane of its own")
            if call.cancelled:
                raise CallCancelled("the batch was cancelled before this call")
            check(call, action, given, member)
            call.member, call.stop = member, None
            answer = exposed.act(call, action, given, member)
            message = read_ps_message(answer)
            if message is None or message[0] not in _RESULTS:
                raise Refused(NOT_IN_A_BATCH)
        except BaseException as exc:
            answer, message = raised_in(call, action, exc), None
        if note is not None:
            note(_part(call, action, given, member, began), answer, monotonic() - began)
        if not call.cancelled:
            call.member, call.stop = whole, None
        if message is None:
            try:
                return _told(results, refs, answer[2])
            finally:
                del answer  # the error in it holds this frame
        results.append(None if message[0] == "reference" else message[1])
        if message[0] == "reference":
            refs.append([len(results) - 1, message[1]])
    return _told(results, refs, None)


def _part(call: Call, action: str, options: dict[str, Any], member: Member, began: float) -> Call:
    """One call of a batch, as if it came by itself."""
    part = Call(call.caller, call.message)
    part.action, part.options, part.member, part.began = action, options, member, began
    return part


def _told(results: list[Any], refs: list[Any], error: Any) -> Any:
    """The answer: references apart, by their places, where None stands."""
    told = {"results": results, "raised": error}
    return ps_message("batch", {**told, "refs": refs} if refs else told)
