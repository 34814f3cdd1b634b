"""Codec: content to five signed frames, and back in a fixed order.

Opening a message goes: frame count and sizes → header → signature → freshness → replay window →
serializer allow-list. Decoding is a separate, later step (`Codec.content`), so nothing is ever
decoded before it is verified. Time comes in as an argument; the codec knows no clock.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import ids, serializers, signing
from .errors import (
    ConfigError,
    FrameError,
    LocalProtocolError,
    SerializerRefused,
    SignatureError,
    StaleMessage,
    VersionError,
)
from .frames import (
    DIALECTS,
    MAX_CONTENT,
    PZC00,
    PZC01,
    Buffer,
    Header,
    Kind,
    check_frames,
    format_header,
    parse_header,
    text,
)
from .ids import Stamp
from .keyring import Key, Keyring
from .signing import SUITES, Sealer, Suite
from .window import ReplayWindow, SeenSignatures

FRESH_MS = 30_000
"""A message may be this many milliseconds older or newer than the receiver's clock."""

_PLAIN_TAG_IN_00 = 20


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


class Codec:
    """Formats and opens messages for one set of keys and preferences.

    Args:
        keyring: accepted keys; None sends and accepts unsigned messages only.
        serializer: for content this side sends.
        dialect: spoken when the peer's is not known, ``PZC01`` or ``PZC00``; one of ``accept``.
        accept: dialects that are opened.
        accept_serializers: names or families that are opened; default all, or only the ones that
            never unpickle when ``serializer`` is one of these.
        suite: ``hmac-sha256``, ``aes256-gmac`` or ``aes256-gcm``; default HMAC-SHA256, and GMAC
            for contents above 64 KiB.
        accept_suites: suites that are opened; default all.
        max_content: limit of frame 2 in bytes.

    Raises:
        ConfigError: for an unknown dialect or suite.
        LocalProtocolError: for an unknown serializer.
    """

    def __init__(
        self,
        keyring: Keyring | None = None,
        *,
        serializer: str = "pickle",
        dialect: str = PZC01,
        accept: Iterable[str] = DIALECTS,
        accept_serializers: Iterable[str] | None = None,
        suite: str | None = None,
        accept_suites: Iterable[str] = tuple(SUITES),
        max_content: int = MAX_CONTENT,
    ) -> None:
        serializers.validate(serializer)
        self.keyring = keyring
        self.serializer = serializer
        self.accept = _known("dialect", (*accept,), DIALECTS)
        self.dialect = _known("dialect", (dialect,), self.accept)[0]
        self.suite = SUITES[_known("suite", (suite,), SUITES)[0]] if suite else None
        self.accept_suites = frozenset(SUITES[name] for name in _known("suite", (*accept_suites,), SUITES))
        self.accept_serializers = (
            serializers.default_accept(serializer)
            if accept_serializers is None
            else frozenset(_family(name) for name in accept_serializers)
        )
        self.max_content = max_content

    def encode(
        self,
        sender: str,
        topic: str,
        content: object,
        *,
        msgid: str,
        own_id: str = "",
        sequence: int = 0,
        key: str = "",
        receiver: str = "",
        dialect: str | None = None,
        serializer: str | None = None,
    ) -> list[Buffer]:
        """Five frames.

        Args:
            sender: agent id, or REP endpoint for PZC00.
            topic: empty for requests and replies.
            content: anything the serializer can express.
            msgid: own fresh id, or the request's when replying.
            own_id: 32 hex digits of an own fresh id; given exactly when ``msgid`` is not one.
            sequence: number within the topic.
            key: what the notification is about within its topic; not written by PZC00.
            receiver: agent id of the receiver; empty for notifications and the handshake.
            dialect: default the codec's.
            serializer: default the codec's.

        Raises:
            SerializeError: when the serializer cannot express the content.
            LocalProtocolError: when the wire cannot carry it.
        """
        name = serializer or self.serializer
        body: Buffer = serializers.encode(name, content)
        if len(body) > self.max_content:
            raise LocalProtocolError(f"content has {len(body)} bytes, the limit is {self.max_content}")
        dialect = dialect or self.dialect
        header = format_header(dialect, sender, topic, own_id or sequence, key)
        msgid_frame, name_frame = _msgid_frame(msgid), name.encode()
        if dialect == PZC00:
            return self._encode_00(header, name_frame, body, msgid_frame)
        kind = Kind.REPLY if own_id else Kind.NOTIFICATION if topic else Kind.REQUEST
        stamp = _own_stamp(own_id, msgid)
        if self.keyring is None:
            return [header, name_frame, body, msgid_frame, b"\0" + receiver.encode()]
        signer = self.keyring.active
        suite = self.suite or (Suite.AES256_GMAC if len(body) > signing.LARGE else Suite.HMAC_SHA256)
        bound = signing.covered(
            kind, suite, signer.key_id, receiver, (header, name_frame, msgid_frame), len(body)
        )
        tag, body = Sealer(signer, suite, sender, stamp, bound).seal(body)
        return [header, name_frame, body, msgid_frame, bytes((suite,)) + tag + signer.key_id.encode()]

    def _encode_00(self, header: bytes, name: bytes, body: Buffer, msgid: bytes) -> list[Buffer]:
        if self.keyring is None:
            return [header, name, body, msgid, b""]
        if not ids.is_urn(msgid.decode()):
            raise LocalProtocolError(f"a signed PZC00 message needs a urn:uuid: as id, not {msgid!r}")
        return [header, name, body, msgid, signing.sign_00(self.keyring.active, (header, name, body, msgid))]

    def open(
        self,
        frames: Sequence[Buffer],
        *,
        kind: Kind | None = None,
        receiver: str = "",
        now_ms: int | None = None,
        offset_ms: int = 0,
        window: ReplayWindow | None = None,
        seen: SeenSignatures | None = None,
    ) -> Envelope:
        """Verify five frames; nothing is decoded.

        Args:
            frames: as received.
            kind: what is expected; None accepts what the header says.
            receiver: this side's agent id for requests and replies, empty for the handshake and
                for notifications.
            now_ms: Unix time in milliseconds; None leaves freshness unjudged (a journal).
            offset_ms: sender's clock minus this clock, as the handshake measured it.
            window: replay memory for PZC01; None leaves it unjudged.
            seen: replay memory for signed PZC00.

        Raises:
            FrameError, VersionError, SignatureError, StaleMessage, ReplayedMessage,
            SerializerRefused: in this order of checks.
        """
        check_frames(frames, self.max_content)
        header = parse_header(frames[0])
        if header.dialect not in self.accept:
            raise VersionError(f"{header.dialect} is not accepted here, only {', '.join(self.accept)}")
        if header.dialect == PZC00:
            envelope = self._open_00(header, frames, kind or Kind.REQUEST)
            if seen is not None and envelope.signer:
                seen.admit(bytes(frames[4]))
        else:
            envelope = self._open_01(header, frames, kind, receiver)
            _judge_time(envelope, now_ms, offset_ms, window)
        if serializers.family(envelope.serializer) not in self.accept_serializers:
            raise SerializerRefused(
                f"serializer {envelope.serializer!r} is not accepted here, "
                f"only {', '.join(sorted(self.accept_serializers))}"
            )
        return envelope

    def content(self, envelope: Envelope) -> Any:
        """Decode a verified message; an unsigned pickle goes through the restricted unpickler.

        Raises:
            DecodeError: when the serializer cannot read it.
            SerializerRefused: for a class that an unsigned pickle may not name.
        """
        return serializers.decode(envelope.serializer, envelope.content, trusted=envelope.signed)

    def _open_00(self, header: Header, frames: Sequence[Buffer], kind: Kind) -> Envelope:
        name, msgid = text("serializer", frames[1]), text("message id", frames[3])
        key = None
        if self.keyring is not None:
            if not ids.is_urn(msgid):
                raise FrameError(f"message id {msgid[:60]!r} is not a canonical urn:uuid:")
            key = self._key_00(frames)
        elif len(frames[4]) not in (0, _PLAIN_TAG_IN_00):
            raise FrameError(f"a PZC00 signature has 0 or 20 bytes, received {len(frames[4])}")
        return Envelope(PZC00, kind, header.sender, header.topic, 0, "", msgid, None, key, name, frames[2])

    def _key_00(self, frames: Sequence[Buffer]) -> Key:
        signature = bytes(frames[4])
        if not signature:
            raise SignatureError("the message is not signed and this agent requires a signature")
        signed = (frames[0], frames[1], frames[2], frames[3])
        for key in self.keyring or ():
            if hmac.compare_digest(signing.sign_00(key, signed), signature):
                return key
        raise SignatureError("the signature does not match: keys differ, or the message was altered")

    def _open_01(
        self, header: Header, frames: Sequence[Buffer], kind: Kind | None, receiver: str
    ) -> Envelope:
        if header.kind is None or (kind is not None and header.kind is not kind):
            raise FrameError(f"expected a {kind.name.lower() if kind else 'message'}, received another kind")
        name, msgid = text("serializer", frames[1]), text("message id", frames[3])
        signature = signing.split(frames[4])
        key, content = None, frames[2]
        if signature.suite is Suite.NONE or self.keyring is None:
            stamp = self._open_unsigned(header, msgid, signature, receiver)
        else:
            key = self._key_01(signature)
            stamp = ids.parse_hex(header.own_id) if header.own_id else ids.parse_urn(msgid)
            bound = signing.covered(
                header.kind,
                signature.suite,
                key.key_id,
                receiver,
                (frames[0], frames[1], frames[3]),
                len(content),
            )
            content = Sealer(key, signature.suite, header.sender, stamp, bound).open(signature.tag, content)
        return Envelope(
            PZC01, header.kind, header.sender, header.topic, header.sequence, header.key,
            msgid, stamp, key, name, content,
        )  # fmt: skip

    def _open_unsigned(
        self, header: Header, msgid: str, signature: signing.Signature, receiver: str
    ) -> Stamp:
        if self.keyring is not None:
            raise SignatureError("the message is not signed and this agent requires a signature")
        if signature.suite is not Suite.NONE:
            raise SignatureError("the message is signed and this agent has no key: set PZC_KEY to the peer's")
        if not hmac.compare_digest(signature.rest.encode(), receiver.encode()):
            raise SignatureError("the message is addressed to another agent")
        return ids.parse_hex(header.own_id) if header.own_id else ids.parse_urn(msgid)

    def _key_01(self, signature: signing.Signature) -> Key:
        key = self.keyring.find(signature.rest) if self.keyring else None
        if key is None:
            raise SignatureError(f"signed with the unknown key {signature.rest[:16]!r}: keys differ")
        if signature.suite not in self.accept_suites:
            raise SignatureError(f"suite {signature.suite.name} is not accepted here")
        return key


def _family(name: str) -> str:
    serializers.validate(name)
    return serializers.family(name)


def _msgid_frame(msgid: str) -> bytes:
    try:
        return msgid.encode()
    except UnicodeEncodeError as exc:
        raise LocalProtocolError(f"message id cannot be written as UTF-8: {exc.reason}") from None


def _own_stamp(own_id: str, msgid: str) -> Stamp:
    try:
        return ids.parse_hex(own_id) if own_id else ids.parse_urn(msgid)
    except FrameError as exc:
        raise LocalProtocolError(f"a message needs an id of its sender's own: {exc}") from None


def _judge_time(envelope: Envelope, now_ms: int | None, offset_ms: int, window: ReplayWindow | None) -> None:
    stamp = envelope.stamp
    if stamp is None or envelope.signer is None:
        return
    if now_ms is not None and abs(now_ms + offset_ms - stamp.ms) > FRESH_MS:
        late = (now_ms + offset_ms - stamp.ms) / 1000
        side = "old" if late > 0 else "ahead"
        raise StaleMessage(
            f"message is {abs(late):.1f} s {side}, the limit is {FRESH_MS // 1000} s; "
            "compare the clocks of both machines"
        )
    if window is not None:
        window.admit(envelope.key_id, envelope.sender, stamp)


def _known(what: str, names: tuple[str, ...], known: Iterable[str]) -> tuple[str, ...]:
    allowed = tuple(known)
    for name in names:
        if name not in allowed:
            raise ConfigError(f"unknown {what} {name!r}, expected one of {', '.join(allowed)}")
    if not names:
        raise ConfigError(f"at least one {what} is needed, out of {', '.join(allowed)}")
    return names
