"""Message: verified, and still bytes.

What all messages of one session have in common stands in `Facts`, made once; a message holds what differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import Struct

from . import serializers
from .frames import Buffer, Kind
from .ids import Stamp
from .keyring import Key
from .shown import printable


class Identity(NamedTuple):
    """Who sent something, as far as that is proven: what its sender says of itself counts under its key only.

    Attributes:
        key_id: of the key that signed it, empty when unsigned.
        agent: agent id (PZC01) or REP endpoint (PZC00), by the sender's own word.
    """

    key_id: str
    agent: str

    @property
    def shown(self) -> str:
        """The agent, for people."""
        return printable(self.agent)

    @property
    def short(self) -> str:
        """The beginning of its id, or its endpoint, for people."""
        return printable(self.agent if "://" in self.agent else self.agent[:8])


@dataclass(frozen=True, slots=True)
class Facts:
    """What is the same for many messages of one sender.

    Attributes:
        dialect: ``PZC00`` or ``PZC01``.
        kind: what they are for.
        sender: agent id (PZC01) or REP endpoint (PZC00).
        topic: empty for requests and replies.
        signer: the key that signs them; None for unsigned ones.
        trusted: True when a pickle in one may be unpickled in full: a key of role operator or above signed
            it, in PZC01, and it is a notification or addressed to this side.
        identity: who sends them.
    """

    dialect: str
    kind: Kind
    sender: str
    topic: str
    signer: Key | None
    trusted: bool
    identity: Identity

    @classmethod
    def of(
        cls, dialect: str, kind: Kind, sender: str, topic: str, signer: Key | None, *, trusted: bool = False
    ) -> Facts:
        """Arguments as the attributes of that name."""
        identity = Identity(signer.key_id if signer else "", sender)
        return cls(dialect, kind, sender, topic, signer, trusted, identity)


class Message(Struct):
    """A verified, not yet decoded message.

    Attributes:
        facts: what it shares with others.
        msgid: ``urn:uuid:`` that correlates request and reply.
        stamp: the sender's own time, counter and epoch; None for PZC00.
        serializer: name from frame 1.
        content: frame 2, decrypted, not decoded.
        suite: code of the suite that it came in, see `signing.Suite`; 0 for PZC00.
        sequence: of a notification the topic's number, of a request what its sender can read, else 0.
        key: what a notification is about within its topic, mostly empty.
    """

    facts: Facts
    msgid: str
    stamp: Stamp | None
    serializer: str
    content: Buffer
    suite: int = 0
    sequence: int = 0
    key: str = ""

    @property
    def dialect(self) -> str:
        """As that of `Facts`."""
        return self.facts.dialect

    @property
    def kind(self) -> Kind:
        """As that of `Facts`."""
        return self.facts.kind

    @property
    def sender(self) -> str:
        """As that of `Facts`."""
        return self.facts.sender

    @property
    def topic(self) -> str:
        """As that of `Facts`."""
        return self.facts.topic

    @property
    def signer(self) -> Key | None:
        """As that of `Facts`."""
        return self.facts.signer

    @property
    def identity(self) -> Identity:
        """Who sent it."""
        return self.facts.identity

    @property
    def key_id(self) -> str:
        """Key id of the signing key, empty when unsigned."""
        return self.facts.identity.key_id

    @property
    def epoch(self) -> int:
        """The sender's epoch, 0 for PZC00."""
        return self.stamp.epoch if self.stamp else 0

    def decode(self, *, writable: bool = False) -> Any:
        """The content; unless the message is trusted, a pickle holds plain data only.

        Args:
            writable: as `serializers.decode`.

        Raises:
            DecodeError: when the serializer cannot read it.
            SerializerRefused: for a class that an untrusted pickle may not name.
        """
        return serializers.decode(
            self.serializer, self.content, trusted=self.facts.trusted, writable=writable
        )
