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

Check = Callable[[Call, str, dict[str, Any], Member], object]
Note = Callable[[Call, Any, float], object]


def run_batch(
    call: Call, options: dict[str, Any], check: Check, exposed: ExposedObject, note: Note | None
) -> Any:
    """Run the actions of a batch, in its turn, up to the first that raises, or until it is cancelled.

    When the call is cancelled, `on_cancel` of the action that ran last holds for it.

    Args:
        call: the batch.
        options: of the batch.
        check: judges an action by its role and the lock.
        exposed: does it.
        note: gets each action as a call, its answer and its seconds, for the audit log.
    """
    results: list[Any] = []
    refs: list[Any] = []
    whole, answer, error = call.member, None, None
    shared = {"lock": options["lock"]} if "lock" in options else {}
    for action, inner in calls_of(options):
        given, member, began = {**inner, **shared}, NOTHING, monotonic()
        try:
            member = exposed.unnamed(action, given) if action == "next" else exposed.member(given)
            if member.lane != call.member.lane:
                raise Refused("the calls of a batch are of one object, where each has a lane of its own")
            if call.cancelled:
                raise CallCancelled("the batch was cancelled before this call")
            check(call, action, given, member)
            call.member, call.stop = member, None
            answer = exposed.act(call, action, given, member)
            kind, value = read_ps_message(answer) or ("", None)
            if kind not in _RESULTS:
                raise Refused(NOT_IN_A_BATCH)
        except BaseException as exc:
            answer, kind, value = raised_in(call, action, exc), "", None
        if note is not None:
            part = Call(call.caller, call.message)
            part.action, part.options, part.member, part.began = action, given, member, began
            note(part, answer, monotonic() - began)
        if not call.cancelled:
            call.member, call.stop = whole, None
        if not kind:
            error = answer[2]
            break
        if kind == "reference":
            refs.append([len(results), value])
        results.append(None if kind == "reference" else value)
    try:
        message = {"results": results, "raised": error}
        return ps_message("batch", {**message, "refs": refs} if refs else message)
    finally:
        del answer, error  # they hold this frame
