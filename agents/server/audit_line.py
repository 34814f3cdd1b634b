"""What an audit log writes of a call: who did what with which outcome; arguments short, secrets masked."""

from __future__ import annotations

import functools
import math
import re
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, cast

from ...protocol.contents import as_list, as_table, as_text, is_raised
from ...protocol.errors import CallCancelled, MemberRefused, Refused
from ...protocol.exceptions import text_of
from ...protocol.lazily import numpy_kind
from ...protocol.shown import shown
from ..operations import CALL
from .call import Call

LONGEST = 200
"""Characters of a text."""

MOST = 16
"""Arguments of a call: so many positional and so many keyword ones."""

MASK = "***"
"""Stands for a secret."""

_ITEMS, _LEVELS = 9, 4  # one item more than `shown` shows
_INT64 = 2**63 - 1
_search = functools.lru_cache(1024)(re.compile("password|secret|token|key", re.IGNORECASE).search)


def line_of(call: Call, answer: Any, seconds: float) -> dict[str, Any]:
    """The line of a call.

    Args:
        call: the call.
        answer: content of its answer; an exception when the call was not executed.
        seconds: from its arrival to its outcome.
    """
    error = answer if isinstance(answer, BaseException) else is_raised(answer)
    options, caller = call.options, call.caller
    method = options.get("method", CALL)
    args = [options["value"]] if "value" in options else as_list(options.get("args", ()))
    return {
        "at": time.time() - (time.monotonic() - call.began),
        "call_id": shorten(call.message.msgid),
        "key": shorten(caller.key_name),
        "agent": shorten(caller.agent),
        "address": shorten(caller.address),
        "action": shorten(call.action if method == CALL else f"{call.action} {as_text(method)}"),
        "member": shorten(call.member.text),
        "args": masked_arguments(call.member.text, args),
        "kwargs": masked_keywords(as_table(options.get("kwargs"))),
        "outcome": _outcome(error, executed=error is not answer),
        "error": "" if error is None else shorten(f"{type(error).__name__}: {text_of(error)}"),
        "duration_ms": seconds * 1000,
    }


def _outcome(error: BaseException | None, executed: bool) -> str:
    if error is None:
        return "ok"
    if isinstance(error, CallCancelled):
        return "cancelled"
    return "raised" if executed and not isinstance(error, Refused | MemberRefused) else "refused"


def masked_arguments(member: str, args: Sequence[Any]) -> list[Any]:
    """Shorten arguments; mask those after the name of a secret, as in ``set("password", x)``."""
    secret = is_secret(member)
    found: list[Any] = []
    for arg in args[:MOST]:
        found.append(MASK if secret else shorten(arg))
        secret = secret or (type(arg) is str and arg[:LONGEST].isidentifier() and is_secret(arg))
    return [*found, f"… {len(args)} in all"] if len(args) > MOST else found


def masked_keywords(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten keyword arguments; mask those whose names are those of secrets."""
    found = {
        str(shorten(name)): MASK if is_secret(name) else shorten(value)
        for name, value in islice(kwargs.items(), MOST)
    }
    return found | {"…": f"{len(kwargs)} in all"} if len(kwargs) > MOST else found


def is_secret(name: object) -> bool:
    """Whether what has this name is not shown."""
    return isinstance(name, str) and (len(name) > LONGEST or _search(name) is not None)


def shorten(value: Any) -> Any:
    """A scalar of JSON as it is, else a short text; never raises."""
    kind = cast("type[Any]", type(value))
    if kind is str:
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}… ({len(value)} characters)"
    if kind is float:
        return value if math.isfinite(value) else repr(value)  # JSON has no nan
    if value is None or kind is bool or (kind is int and -_INT64 <= value <= _INT64):
        return value
    try:
        if numpy_kind(kind) == "generic" and type(value.item()) in (bool, int, float, str):
            return shorten(value.item())
        return shown(_masked(value, _LEVELS), LONGEST)
    except Exception:  # a class that lies about itself, or another thread changed the value meanwhile
        return f"<{kind.__name__[:LONGEST]}>"


def _masked(value: Any, levels: int) -> Any:
    if levels and isinstance(value, Mapping):
        table = cast("Mapping[object, object]", value)
        return {
            key: MASK if is_secret(key) else _masked(each, levels - 1)
            for key, each in islice(table.items(), _ITEMS)
        }
    if levels and type(value) in (list, tuple):
        return type(value)(_masked(each, levels - 1) for each in value[:_ITEMS])
    return value
