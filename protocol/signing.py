"""Suites: how frame 4 proves who wrote the other four.

Frame 4 of PZC01::

    suite  tag                              rest
    0      none (no key)                    receiver's agent id, in clear
    1      HMAC-SHA256, 32 bytes            key id, 8 hex digits
    3      AES-256-GCM, 16 bytes            key id; content encrypted

What the tag covers (big-endian), so that no byte can change, move or serve another purpose::

    "PZC01" kind:1 suite:1 len(key id):2 len(receiver):2 len(header):4 len(serializer):4
    len(message id):4 len(content):8 key id, receiver, header, serializer, message id, content

The keys of GCM are derived per sender and epoch; the nonce is the sender's own stamp
(`ids.Stamp`): the message id's, or, for a reply, the one in its header, because a reply echoes
an id that somebody else chose.
"""

from __future__ import annotations

import enum
import hmac
import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .errors import SignatureError
from .frames import Buffer, Kind
from .ids import Stamp
from .keyring import Key

LARGE = 1 << 16
"""Content size in bytes above which nothing is joined, because copying costs more than calling twice."""

KEY_ID_SIZE = 8
"""Characters of a key id at the end of frame 4."""

pack_lengths = struct.Struct(">IIIQ").pack
"""What is covered of the lengths: of header, serializer, message id, content."""


class Suite(enum.IntEnum):
    """Code of a suite on the wire."""

    NONE = 0
    HMAC_SHA256 = 1
    AES256_GCM = 3


SUITES = {"hmac-sha256": Suite.HMAC_SHA256, "aes256-gcm": Suite.AES256_GCM}
"""Names of the suites that every agent opens."""

TAG_SIZE = {Suite.NONE: 0, Suite.HMAC_SHA256: 32, Suite.AES256_GCM: 16}
"""Bytes of a tag, by suite."""


class Signature(NamedTuple):
    """The parts of frame 4; without a key the receiver stands in the place of a tag."""

    suite: Suite
    tag: bytes
    rest: str


def split(frame: Buffer) -> Signature:
    """Read frame 4.

    Raises:
        SignatureError: for an unknown suite or a short tag.
    """
    raw = bytes(frame)
    if not raw or raw[0] not in TAG_SIZE:
        raise SignatureError(f"unknown signature suite {raw[:1]!r}")
    suite = Suite(raw[0])
    end = 1 + TAG_SIZE[suite]
    if len(raw) < end:
        raise SignatureError(f"signature frame of {len(raw)} bytes is too short for {suite.name}")
    if suite is Suite.NONE:
        return Signature(suite, raw[1:], "")
    try:
        return Signature(suite, raw[1:end], raw[end:].decode("ascii"))
    except UnicodeDecodeError:
        raise SignatureError("the key id is not ASCII") from None


def check_signed(suite: Suite, keys: bool) -> None:
    """Judge whether a message is signed exactly where this side has keys.

    Raises:
        SignatureError: when it is not.
    """
    if suite is Suite.NONE and keys:
        raise SignatureError("the message is not signed and this agent requires a signature")
    if suite is not Suite.NONE and not keys:
        raise SignatureError("the message is signed and this agent has no key: set PZC_KEY to the peer's")


Parties = tuple[bytes, bytes]
"""The covered bytes that all messages of one kind from one agent to another share; see `parties`."""


def parties(kind: Kind, suite: Suite, key_id: str, receiver: str) -> Parties:
    """The covered bytes before and behind the lengths of the frames."""
    key, agent = key_id.encode(), receiver.encode()
    return struct.pack(">5sBBHH", b"PZC01", kind, suite, len(key), len(agent)), key + agent


def covered(
    parties: Parties,
    header: Buffer,
    serializer: Buffer,
    msgid: Buffer,
    content_length: int,
    content: Buffer = b"",
) -> bytes:
    """All authenticated bytes; those of the content only when it is given."""
    start, names = parties
    lengths = pack_lengths(len(header), len(serializer), len(msgid), content_length)
    return b"".join((start, lengths, names, header, serializer, msgid, content))


@dataclass(slots=True, repr=False)
class Sealer(ABC):
    """Seals and opens what one epoch of a sender tells one receiver, with one suite and key.

    Attributes:
        epoch: of the sender.
        mark: what stands before and behind the tag in frame 4.
    """

    epoch: int
    mark: tuple[bytes, bytes]

    @abstractmethod
    def seal(
        self, stamp: Stamp, header: Buffer, serializer: Buffer, msgid: Buffer, content: Buffer
    ) -> tuple[bytes, Buffer]:
        """Tag and content to send (encrypted by GCM, else as given)."""

    def open(
        self, stamp: Stamp, header: Buffer, serializer: Buffer, msgid: Buffer, content: Buffer, tag: bytes
    ) -> Buffer:
        """Content in clear, once the tag holds.

        Raises:
            SignatureError: when it does not.
        """
        if not hmac.compare_digest(self.seal(stamp, header, serializer, msgid, content)[0], tag):
            raise mismatch()
        return content


def sealer(key: Key | None, suite: Suite, kind: Kind, sender: str, receiver: str, epoch: int) -> Sealer:
    """A sealer, to be kept between messages.

    Args:
        key: shared secret; None, for a message that is not signed, whatever the suite.
        suite: which proof.
        kind: what the messages are for.
        sender: agent id in the header.
        receiver: agent id that the messages are for; empty for notifications and the handshake.
        epoch: of the sender.
    """
    if key is None:
        return _Unsigned(epoch, (b"\0", b""), receiver.encode())
    start = parties(kind, suite, key.key_id, receiver)
    mark = (bytes((suite,)), key.key_id.encode())
    if suite is Suite.HMAC_SHA256:
        return _Hmac(epoch, mark, start, key.hmac_key)
    return _Gcm(epoch, mark, start, key.aead(sender, epoch))


@dataclass(slots=True, repr=False)
class _Unsigned(Sealer):
    receiver: bytes

    def seal(
        self, stamp: Stamp, header: Buffer, serializer: Buffer, msgid: Buffer, content: Buffer
    ) -> tuple[bytes, Buffer]:
        return self.receiver, content

    def open(
        self, stamp: Stamp, header: Buffer, serializer: Buffer, msgid: Buffer, content: Buffer, tag: bytes
    ) -> Buffer:
        if tag != self.receiver:
            raise SignatureError("the message is addressed to another agent")
        return content


@dataclass(slots=True, repr=False)
class _Hmac(Sealer):
    parties: Parties
    key: bytes

    def seal(
        self, stamp: Stamp, header: Buffer, serializer: Buffer, msgid: Buffer, content: Buffer
    ) -> tuple[bytes, Buffer]:
        size = len(content)
        if size <= LARGE:
            whole = covered(self.parties, header, serializer, msgid, size, content)
            return hmac.digest(self.key, whole, "sha256"), content
        running = hmac.new(self.key, covered(self.parties, header, serializer, msgid, size), sha256)
        running.update(content)
        return running.digest(), content


@dataclass(slots=True, repr=False)
class _Gcm(Sealer):
    parties: Parties
    aead: AESGCM

    def seal(
        self, stamp: Stamp, header: Buffer, serializer: Buffer, msgid: Buffer, content: Buffer
    ) -> tuple[bytes, Buffer]:
        start = covered(self.parties, header, serializer, msgid, len(content))
        sealed = memoryview(self.aead.encrypt(stamp.nonce(), content, start))
        return bytes(sealed[-16:]), sealed[:-16]

    def open(
        self, stamp: Stamp, header: Buffer, serializer: Buffer, msgid: Buffer, content: Buffer, tag: bytes
    ) -> Buffer:
        start = covered(self.parties, header, serializer, msgid, len(content))
        try:
            return self.aead.decrypt(stamp.nonce(), b"".join((content, tag)), start)
        except InvalidTag:
            raise mismatch() from None


def mismatch() -> SignatureError:
    """The error of a tag that does not hold."""
    return SignatureError("the signature does not match")


def sign_00(key: Key, frames: tuple[Buffer, Buffer, Buffer, Buffer]) -> bytes:
    """HMAC-SHA1 over the joined frames 0..3, as the original Pizco signs."""
    return hmac.digest(key.secret, b"".join(frames), "sha1")


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
        made = sealer(key, suite, kind, sender.agent_id, receiver, epoch)
        self.seal, self.open = made.seal, made.open
        self.head, self.tail = made.mark
        self.hmac = key is not None and suite is Suite.HMAC_SHA256
        self.tag_end = 1 + (TAG_SIZE[suite] if key else len(receiver.encode()))
