"""Batch: several actions in one turn, each judged as if it came by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol import limits
from ...protocol.contents import as_list, ps_message, read_ps_message, shown
from ...protocol.errors import Refused, RemoteProtocolError
from .call import Call
from .calls import Exposed, raised_in

_SHARED = ("lock", "as")
_RESULTS = ("return", "remote", "reference")


def calls_of(options: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Action and options of each call of a batch.

    Raises:
        RemoteProtocolError: when it is no batch.
    """
    told = options.get("calls")
    calls = as_list(told)
    if not isinstance(told, list | tuple) or len(calls) > limits.current.batch_calls:
        raise RemoteProtocolError(f"a batch has a list of at most {limits.current.batch_calls} calls")
    found: list[tuple[str, dict[str, Any]]] = []
    for call in calls:
        pair = as_list(call)
        if list(map(type, pair)) != [str, dict]:
            raise RemoteProtocolError(f"a call of a batch is an action and its options, not {shown(call)}")
        action, given = pair
        if action == "batch":
            raise RemoteProtocolError("a batch has no batches inside")
        found.append((action, given))
    return found


def run_batch(
    call: Call,
    options: dict[str, Any],
    check: Callable[[Call, str, dict[str, Any]], object],
    exposed: Exposed,
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
            if message is not None and message[0] == "stream":
                exposed.drop(message[1]["id"], call.caller)
            if message is None or message[0] not in _RESULTS:
                raise Refused("a batch cannot hold futures and streams: call that method by itself")
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
