"""Calls: what runs or waits in an agent's lanes, and who asked for it.

::

    call       event                          next
    waiting    its turn                       running
    waiting    cancel                         over: answered with CallCancelled, never executed
    running    cancel                         running; `cancelled` is True for it from now on
    running    answered                       over
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any

from ...protocol import limits
from ...protocol.contents import as_list, ps_message, raised, shown, text_of
from ...protocol.errors import PzcError, RemoteProtocolError
from ...protocol.message import Identity
from ...protocol.shown import printable
from .call import Call

logger = logging.getLogger("pzc.dispatcher")


class Calls:
    """Calls of one agent; safe from any thread.

    Attributes:
        table: by the key that made them, and id.
    """

    def __init__(self) -> None:
        self.table: dict[tuple[str, str], Call] = {}

    def __len__(self) -> int:
        return len(self.table)

    def has(self, call: Call) -> bool:
        """True for a call that runs or waits."""
        return self.table.get((call.caller.key_id, call.message.msgid)) is call

    def all(self) -> list[Call]:
        """What runs and waits now, oldest first."""
        return list(self.table.values())

    def find(self, call_id: str, key_id: str) -> Call | None:
        """The call of that id that was made with this key, or None."""
        return self.table.get((key_id, call_id))

    def find_any(self, call_id: str) -> Call | None:
        """The first call of that id, whoever made it, or None."""
        return next((call for call in self.all() if call.message.msgid == call_id), None)

    def cancel(self, call: Call) -> str:
        """Remove a call that waits, tell one that runs; ``removed`` or ``told``."""
        if call.lane is not None and call.lane.remove(call):
            return "removed"
        call.tell()
        return "told"

    def cancel_of(self, identity: Identity) -> int:
        """Cancel all that a dead agent asked for, but what is detached; how many calls those are."""
        theirs = [call for call in self.all() if call.caller.identity == identity and not call.detached]
        for call in theirs:
            self.cancel(call)
        return len(theirs)

    def running(self) -> list[dict[str, Any]]:
        """What runs and waits now, for people and programs: member, caller, seconds and state."""
        now = monotonic()
        return [
            {
                "id": call.id, "member": call.member.text or call.action, "action": call.action,
                "caller": call.caller.key_name, "agent": call.caller.agent, "address": call.caller.address,
                "since": round(now - call.since, 3), "state": "running" if call.runs else "waiting",
                "cancelled": call.cancelled,
            }
            for call in self.all()
        ]  # fmt: skip


def raised_in(call: Call, action: str, error: BaseException) -> tuple[str, str, Any]:
    """The answer to an action of a call that raised, which is logged: its traceback is written down once."""
    ours = isinstance(error, PzcError | AttributeError)
    told = call.member.text, printable(call.caller.agent), type(error).__name__, printable(text_of(error))
    answer: tuple[str, str, Any] = raised(error)
    level = logging.INFO if ours else logging.WARNING
    if logger.isEnabledFor(level):
        trace = None if ours else (type(error), error, None)
        text = "%s %s of %s raised %s: %s"
        record = logger.makeRecord(logger.name, level, __file__, 0, text, (action, *told), trace)
        if not ours:
            record.exc_text = "Traceback (most recent call last):\n" + "".join(answer[2][1]).rstrip()
        logger.handle(record)
    return answer


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


def note_of(call: Call) -> tuple[str, str, object]:
    """What a caller is told while its call takes long: that it is still wanted, and what runs."""
    now = monotonic()
    lane = call.lane
    running = (
        [] if lane is None else [f"{each.label} since {now - each.since:.1f} s" for each in lane.running]
    )
    return ps_message("running", {"state": "running" if call.runs else "waiting", "running": running})
