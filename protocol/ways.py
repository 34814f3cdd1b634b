"""Ways: what is constant in each direction of a connection between two agents."""

from __future__ import annotations

from typing import NamedTuple

from . import signing
from .frames import Kind
from .keyring import Key
from .signing import Sealer, Suite

_HMAC = Suite.HMAC_SHA256


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


class Way:
    """What is constant in one direction under one suite and epoch: of what the tag covers, and of frame 4.

    HMAC-SHA256 of a small message is ``sha256(outer + sha256(inner + lengths + names + frames))``: what the
    library does for one takes longer than both hashes. Without HMAC both are empty.
    """

    __slots__ = ("epoch", "head", "inner", "names", "outer", "sealer", "suite", "tag_end", "tail")

    def __init__(self, kind: Kind, suite: Suite, sender: Party, receiver: str, epoch: int) -> None:
        key = sender.key
        self.suite, self.epoch = int(suite), epoch
        self.sealer: Sealer = signing.sealer(key, suite, kind, sender.agent_id, receiver, epoch)
        self.head, self.tail = self.sealer.mark
        self.tag_end = 1 + (signing.TAG_SIZE[suite] if key else len(receiver.encode()))
        start, self.names = signing.parties(kind, suite, key.key_id if key else "", receiver)
        inner, self.outer = signing.hmac_pads(key.hmac_key) if key and suite is _HMAC else (b"", b"")
        self.inner = inner + start if inner else b""
