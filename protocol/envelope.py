"""Envelope: a verified message whose content is still bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .frames import Buffer, Kind
from .ids import Stamp
from .keyring import Key


class Identity(NamedTuple):
    """Who sent something, as far as that is proven: what its sender says of itself counts under its key only.

    Attributes:
        key_id: of the key that signed it, empty when unsigned.
        agent: agent id (PZC01) or REP endpoint (PZC00), by the sender's own word.
    """

    key_id: str
    agent: str


@dataclass(slots=True)
class Envelope:
    """A verified, not yet decoded message.

    Attributes:
        dialect: ``PZC00`` or ``PZC01``.
        kind: what it is for.
        sender: agent id (PZC01) or REP endpoint (PZC00).
        topic: empty for requests and replies.
        sequence: the topic's number, 0 when there is none.
        key: what a notification is about within its topic, mostly empty.
        msgid: ``urn:uuid:`` that correlates request and reply.
        stamp: the sender's own time, counter and epoch; None for PZC00.
        signer: the key that signed it; None for an unsigned message.
        serializer: name from frame 1.
        content: frame 2, decrypted, not decoded.
        trusted: True when a pickle in it may be unpickled in full: a key of role operator or above signed
            it, in PZC01, and it is a notification or addressed to this side.
    """

    dialect: str
    kind: Kind
    sender: str
    topic: str
    sequence: int
    key: str
    msgid: str
    stamp: Stamp | None
    signer: Key | None
    serializer: str
    content: Buffer
    trusted: bool = False

    @property
    def signed(self) -> bool:
        """True when a known key signed the message."""
        return self.signer is not None

    @property
    def epoch(self) -> int:
        """The sender's epoch, 0 for PZC00."""
        return self.stamp.epoch if self.stamp else 0

    @property
    def sent_ms(self) -> int | None:
        """The sender's Unix time in milliseconds; None for PZC00."""
        return self.stamp.ms if self.stamp else None

    @property
    def key_id(self) -> str:
        """Key id of the signing key, empty when unsigned."""
        return self.signer.key_id if self.signer else ""

    @property
    def identity(self) -> Identity:
        """Who sent it."""
        return Identity(self.key_id, self.sender)
