"""Notes: what a caller is told of a call that is late."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from ...protocol.contents import as_list, as_table, as_text, is_word
from ...protocol.errors import CallTimeout


class NotRun(CallTimeout):
    """The server had no turn for a call in time, and said why."""


def late(
    error: CallTimeout, endpoint: str, seconds: float, note: dict[str, Any] | None = None
) -> CallTimeout:
    """The end of a request without an answer, as users know it.

    Args:
        error: of the wait, or of the server, which says what ran instead.
        endpoint: of the peer.
        seconds: that were waited.
        note: what was told of the call that runs; None for nothing.
    """
    if isinstance(error, NotRun):
        return CallTimeout(f"no reply from {endpoint} within {seconds:g} s: {error}")
    text = f"no reply from {endpoint} within {seconds:g} s; the call may or may not have run"
    made = CallTimeout(f"{text}; {running_text(note)}" if note else text)
    made.call_id = error.call_id
    return made


def running_text(note: dict[str, Any]) -> str:
    """What a note tells: which member runs, for whom, since when."""
    member, caller, since = (as_text(note.get(name, "?"))[:100] for name in ("member", "caller", "since"))
    with contextlib.suppress(ValueError, OverflowError, OSError):
        since = time.strftime("%H:%M:%S", time.localtime(float(since)))
    return f"{member} runs there for {caller} since {since}"


def note_in(told: object, call_id: str) -> dict[str, Any] | None:
    """The note of a call; None when it does not run.

    Args:
        told: what a server answered who was asked what runs.
        call_id: of the call.
    """
    for each in map(as_table, as_list(as_table(told).get("running"))):
        since = each.get("since")
        if is_word(each.get("id"), call_id) and isinstance(since, int | float):
            caller = as_text(each.get("caller")) or f"agent {as_text(each.get('agent'))[:8]}"
            return {"member": each.get("member"), "caller": caller, "since": time.time() - since}
    return None
