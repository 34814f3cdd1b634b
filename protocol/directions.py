"""Directions: what is constant in each direction of a connection between two agents."""

from __future__ import annotations

from typing import NamedTuple

from . import signing
from .frames import Kind
from .keyring import Key
from .signing import Suite


class Party(NamedTuple):
    """One end of the connection.

    Attributes:
        agent_id: its id.
        epoch: of its messages.
        key: signs what it says here: that of whoever asks, at both ends; None without keys.
    """

    agent_id: str
    epoch: int
    key: Key | None


class Direction:
    """What is constant in one direction under one suite and epoch: what makes tags, the rest of frame 4."""

    __slots__ = ("digits", "epoch", "head", "hmac", "open", "seal", "suite", "tag_end", "tail")

    def __init__(self, kind: Kind, suite: Suite, sender: Party, receiver: str, epoch: int) -> None:
        key = sender.key
        self.suite, self.epoch, self.digits = int(suite), epoch, b"%08x" % epoch
        sealer = signing.sealer(key, suite, kind, sender.agent_id, receiver, epoch)
        self.seal, self.open = sealer.seal, sealer.open
        self.head, self.tail = sealer.mark
        self.hmac = key is not None and suite is Suite.HMAC_SHA256
        self.tag_end = 1 + (signing.TAG_SIZE[suite] if key else len(receiver.encode()))
