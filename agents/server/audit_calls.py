"""What an audit log is told of each call."""

from __future__ import annotations

import functools
import time
from typing import Any

from ...protocol.contents import as_text, is_raised, text_of
from ...protocol.errors import MemberRefused, Refused
from .audit import MOST, Audit, CallRecord, is_secret
from .calls import Call

_OUTCOMES = {"CallCancelled": "cancelled"}
_NONE: dict[str, Any] = {}
_LARGEST = 2**63 - 1


class CallAudit:
    """Records the calls of one server.

    Args:
        audit: its log.
    """

    def __init__(self, audit: Audit) -> None:
        self._record, self._plain = audit.record, audit.plain
        self._masks = functools.lru_cache(4096)(is_secret)

    def note(self, call: Call, answer: Any, seconds: float) -> None:
        """A call was answered, or refused because of its key's role; only messages of proxies are told.

        Args:
            call: it.
            answer: to it; an exception when it was refused.
            seconds: that it ran.
        """
        if not call.action:
            return
        caller, action = call.caller, call.action
        error: BaseException | None = None
        if type(answer) is not tuple or len(answer) != 3 or answer[1] != "return":
            error = answer if isinstance(answer, BaseException) else is_raised(answer)
        options = call.options
        if error is None and type(options) is dict and options.get("method", "__call__") == "__call__":
            # What most calls are: numbers and short texts, nothing in it that is secret.
            args, text = options.get("args", ()), call.member.text
            plain = "value" not in options and not options.get("kwargs") and type(args) is tuple
            checked: tuple[Any, ...] = args if plain and len(args) <= MOST else (args,)
            for arg in checked:
                kind = type(arg)
                if kind is int or kind is float:
                    plain = -_LARGEST <= arg <= _LARGEST
                else:
                    plain = arg is None or kind is bool
                if not plain:
                    break
            if plain and not self._masks(text):
                self._plain(
                    (time.time(), call.message.msgid, caller.key_name, caller.agent, caller.address, action,
                     text, [*args], {}, "ok", "", seconds * 1000)
                )  # fmt: skip
                return
        given: dict[str, Any] = call.options if type(call.options) is dict else _NONE
        method = given.get("method", "__call__")
        values = (given["value"],) if "value" in given else given.get("args", ())
        self._record(
            CallRecord(
                time.time(),
                call.message.msgid,
                caller.key_name,
                caller.agent,
                caller.address,
                action if method == "__call__" else f"{action} {as_text(method)}",
                call.member.text,
                tuple(values) if type(values) in (list, tuple) else (values,),
                given.get("kwargs") or _NONE,
                "ok" if error is None else _outcome(error),
                "" if error is None else f"{type(error).__name__}: {text_of(error)}",
                seconds * 1000,
            )
        )


def _outcome(error: BaseException) -> str:
    if isinstance(error, Refused | MemberRefused):
        return "refused"
    return _OUTCOMES.get(type(error).__name__, "raised")
