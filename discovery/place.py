"""Place: where the agent of a name is."""

from __future__ import annotations

from dataclasses import dataclass

from .records import Entry


@dataclass(frozen=True)
class Place:
    """Where an agent is.

    Attributes:
        endpoint: its REP endpoint.
        entry: what it told of itself; None for an endpoint and for a static peer.
        settled: it stays where it is.
    """

    endpoint: str
    entry: Entry | None = None
    settled: bool = True
