"""Peer: what the handshake told of another agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .frames import PZC00


@dataclass(frozen=True)
class Peer:
    """What is known of the agent behind an endpoint.

    Attributes:
        endpoint: where it was reached.
        dialect: what it speaks.
        agent_id: of PZC01 peers, else the REP endpoint.
        epoch: its start; 0 for PZC00.
        name: as it calls itself, possibly empty.
        pub_endpoint: where it publishes.
        offset_ms: its clock minus ours.
        details: everything it answered.
        key_id: of the key that signed its handshake; what it sends later must be signed with the same.
    """

    endpoint: str
    dialect: str
    agent_id: str
    epoch: int
    name: str
    pub_endpoint: str
    offset_ms: int
    details: dict[str, Any]
    key_id: str = ""

    @property
    def publishing(self) -> str:
        """Id of the key that signs what it publishes; that of its handshake where it tells none."""
        told = self.details.get("publishes")
        return told if isinstance(told, str) else self.key_id


def unmet(endpoint: str, dialect: str) -> Peer:
    """Whoever is behind an endpoint, to be asked in a dialect for the first time."""
    return Peer(endpoint, dialect, endpoint if dialect == PZC00 else "", 0, "", "", 0, {})
