"""What an audit log is told of each call."""

from __future__ import annotations

import time
from typing import Any

from ...protocol.contents import as_text, is_raised, text_of
from ...protocol.errors import MemberRefused, Refused
from ...protocol.operations import CALL
from .audit import Audit, CallRecord
from .calls import Call

_OUTCOMES = {"CallCancelled": "cancelled"}
_NONE: dict[str, Any] = {}
_LASTING = frozenset({type(None), bool, int, float, str, bytes})
"""Types of arguments that nobody can change until the line is written."""

_LIGHT = 1 << 13
"""Bytes of a request, at most, whose arguments are kept as they came until then."""


class CallAudit:
    """Records the calls of one server.

    Args:
        audit: its log.
    """

    def __init__(self, audit: Audit) -> None:
        self._record, self._put = audit.record, audit.put

    def note(self, call: Call, answer: Any, seconds: float) -> None:
        """A call was answered, or refused because of its key's role; only messages of proxies are told.

        Args:
            call: it.
            answer: to it; an exception when it was refused.
            seconds: that it ran.
        """
        action, caller, message = call.action, call.caller, call.message
        if not action:
            return
        outcome, told = "ok", ""
        if answer.__class__ is not tuple or len(answer) != 3 or answer[1] != "return":
            error = answer if isinstance(answer, BaseException) else is_raised(answer)
            if error is not None:
                outcome, told = _outcome(error), f"{type(error).__name__}: {text_of(error)}"
        options = call.options
        method = options.get("method", CALL)
        if method != CALL:
            action = f"{action} {as_text(method)}"
        args: Any = (options["value"],) if "value" in options else options.get("args", ())
        kwargs: Any = options.get("kwargs") or _NONE
        if args.__class__ is not tuple:
            args = (*args,) if args.__class__ is list else (args,)
        record = (
            time.time(), message.msgid, caller.key_name, caller.agent, caller.address, action,
            call.member.text, args, kwargs, outcome, told, seconds * 1000,
        )  # fmt: skip
        if (
            len(message.content) <= _LIGHT
            and _LASTING.issuperset(map(type, args))
            and (not kwargs or (kwargs.__class__ is dict and _LASTING.issuperset(map(type, kwargs.values()))))
        ):
            self._put(None, record)
        else:
            self._record(CallRecord(*record))


def _outcome(error: BaseException) -> str:
    if isinstance(error, Refused | MemberRefused):
        return "refused"
    return _OUTCOMES.get(type(error).__name__, "raised")
