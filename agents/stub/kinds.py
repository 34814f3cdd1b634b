"""Words for what is declared of a member: in a stub, in ``help``, in ``pzc info`` and on a panel."""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.shown import plain

KINDS = {
    "urgent": "urgent",
    "reading": "reading",
    "concurrent": "concurrent",
    "on_cancel": "on_cancel {}",
    "idempotent": "idempotent",
    "poll": "polled every {} s",
}
"""By key of a member's description, in the order in which they are shown."""


def declared(entry: Mapping[str, object]) -> str:
    """What is declared of a member, such as ``reading, on_cancel stop``; empty when nothing is."""
    return ", ".join(
        words.format(_text(entry[key])) for key, words in KINDS.items() if entry.get(key) not in (None, False)
    )


def _text(given: object) -> str:
    if isinstance(given, float):
        return f"{given:g}"
    return plain(given)[:100] if isinstance(given, str) else ""
