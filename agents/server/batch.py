"""Batch: several actions in one turn, each judged as if it came by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.contents import ps_message, read_ps_message
from ...protocol.errors import Refused
from .answers import NOT_IN_A_BATCH
from .call import Call, calls_of, raised_in
from .exposed import ExposedObject

_SHARED = ("lock", "as")
_RESULTS = ("return", "remote", "reference")


def run_batch(
    call: Call,
    options: dict[str, Any],
    check: Callable[[Call, str, dict[str, Any]], object],
    exposed: ExposedObject,
) -> Any:
    """Run the calls of a batch up to the first that raises; in its turn.

    Args:
        call: that carried the batch.
        options: of the batch.
        check: judges an action by the lock.
        exposed: does it.
    """
    results: list[Any] = []
    refs: list[Any] = []
    for action, inner in calls_of(options):
        try:
            given = {**inner, **{key: options[key] for key in _SHARED if key in options}}
            member = exposed.unnamed(action, given) if action == "next" else exposed.member(given)
            if member.lane != call.member.lane:
                raise Refused("the calls of a batch are of one object, where each has a lane of its own")
            check(call, action, given)
            message = read_ps_message(exposed.act(call, action, given, member))
            if message is None or message[0] not in _RESULTS:
                raise Refused(NOT_IN_A_BATCH)
        except BaseException as exc:
            return _told(results, refs, raised_in(call, action, exc)[2])
        results.append(None if message[0] == "reference" else message[1])
        if message[0] == "reference":
            refs.append([len(results) - 1, message[1]])
    return _told(results, refs, None)


def _told(results: list[Any], refs: list[Any], error: Any) -> Any:
    """The answer: references apart, by their places, where None stands."""
    told = {"results": results, "raised": error}
    return ps_message("batch", {**told, "refs": refs} if refs else told)
