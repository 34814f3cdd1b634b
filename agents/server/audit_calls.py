"""What an audit log is told of each call."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from ...protocol.contents import RETURN, SEQUENCES, as_text, is_raised
from ...protocol.errors import CallCancelled, MemberRefused, Refused
from ...protocol.exceptions import text_of
from ...protocol.msgpack import ATOMS
from ..operations import CALL
from .audit import Audit, CallRecord
from .call import Call

_NONE: dict[str, Any] = {}
_USUAL = frozenset({"name", "on", "method", "args", "timeout", "lock"})
"""Options that nobody changes until the line is written, with arguments in which nothing else can be."""

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
        """A call was answered, or was not executed; only messages of proxies are told.

        Args:
            call: it.
            answer: to it; an exception when it was not executed.
            seconds: from its arrival on.
        """
        options = call.options
        if not call.action:
            return
        error, ran = None, not isinstance(answer, BaseException)
        if answer.__class__ is not tuple or len(answer) != 3 or answer[1] is not RETURN:
            error = is_raised(answer) if ran else answer
        if (
            error is None
            and len(call.message.content) <= _LIGHT
            and (args := options.get("args", ())).__class__ in SEQUENCES
            and ATOMS.issuperset(map(type, args))
            and (options.keys() <= _USUAL or _lasts(options))
        ):
            self._put(None, partial(_record, call, None, seconds))
        else:
            self._record(_record(call, error, seconds, ran))


def _lasts(options: dict[str, Any]) -> bool:
    kwargs = options.get("kwargs", _NONE)
    named = kwargs.__class__ is dict and ATOMS.issuperset(map(type, kwargs.values()))
    return named and options.get("value").__class__ in ATOMS


def _record(call: Call, error: BaseException | None, seconds: float, ran: bool = True) -> CallRecord:
    """What is told of a call that came `monotonic() - call.began` seconds ago."""
    action, options, caller = call.action, call.options, call.caller
    outcome, told = "ok", ""
    if error is not None:
        outcome, told = _outcome(error, ran), f"{type(error).__name__}: {text_of(error)}"
    method = options.get("method", CALL)
    if method != CALL:
        action = f"{action} {as_text(method)}"
    args: Any = (options["value"],) if "value" in options else options.get("args", ())
    if args.__class__ is not tuple:
        args = (*args,) if args.__class__ is list else (args,)
    return CallRecord(
        time.time() - (time.monotonic() - call.began), call.message.msgid, caller.key_name, caller.agent,
        caller.address, action, call.member.text, args, options.get("kwargs") or _NONE, outcome, told,
        seconds * 1000,
    )  # fmt: skip


def _outcome(error: BaseException, ran: bool) -> str:
    if isinstance(error, CallCancelled):
        return "cancelled"
    return "refused" if not ran or isinstance(error, Refused | MemberRefused) else "raised"
