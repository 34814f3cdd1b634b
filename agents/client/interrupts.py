"""Interrupts: what Ctrl-C says of a call whose wait it ends, and which frames its traceback shows."""

from __future__ import annotations

from typing import Any, TypeVar

from ...transport.peer import Peer
from .sent import told_of

E = TypeVar("E", bound=BaseException)

_ACTIONS = {"get", "getattr", "setattr", "exec"}


def interrupted(error: E, outcome: str) -> E:
    """An interrupt with a note, and without the frames of the wait; to be raised ``from None``."""
    if outcome:
        error.add_note(outcome)
    return error.with_traceback(None)


def outcome(peer: Peer, action: str, options: dict[str, Any], stop: object = None) -> str:
    """What becomes of a call that nobody waits for any more; empty for what runs nothing.

    Args:
        peer: that was asked.
        action: of the request.
        options: of the action.
        stop: method that is called when the call was cancelled, if one is known.
    """
    if action == "batch":
        member = "the batch"
    elif action == "next":
        return f"the stream of {peer.name or peer.endpoint} was closed; its generator ends at its next item"
    elif action in _ACTIONS:
        member = named(peer, options)
    else:
        return ""
    if options.get("detached"):
        return f"{member} goes on at the server, because it was called with detached=True"
    if not peer.native:
        return f"{member} goes on at the server, which cannot cancel it"
    begun = f"its server calls {stop!r}" if stop else "it goes on until it asks pzc.cancelled() or returns"
    return f"{member} was cancelled; if it had begun, {begun}"


def named(peer: Peer, options: dict[str, Any]) -> str:
    """A member with the name of its agent, such as ``psu.ramp``."""
    return ".".join(filter(None, (peer.name, told_of(options))))
