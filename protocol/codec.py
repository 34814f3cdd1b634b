"""Codec: content to five signed frames, and back in a fixed order.

Opening a message goes: frame count and sizes → header → signature → freshness → replay window →
serializer allow-list. Decoding is a separate, later step (`Message.decode`), so nothing is ever
decoded before it is verified. Time comes in as an argument; the codec knows no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from . import ids, original, serializers, signing
from .buffers import Allocate, Data
from .errors import (
    ConfigError,
    FrameError,
    LocalProtocolError,
    SerializeError,
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
    format_msgid,
    parse_header,
    text,
)
from .ids import Stamp
from .keyring import Key, Keyring
from .message import Facts, Message
from .signing import SUITES, Suite
from .window import ReplayWindow, SeenSignatures

FRESH_MS = 30_000
"""A message may be this many milliseconds older or newer than the receiver's clock."""

_sealer = lru_cache(1024)(signing.sealer)
# Enum members are looked up by Python code in some versions.
_REQUEST, _REPLY, _NOTIFICATION = Kind


class Codec:
    """Formats and opens messages for one set of keys and preferences.

    Args:
        keyring: accepted keys; None sends and accepts unsigned messages only.
        serializer: for content this side sends.
        dialect: spoken when the peer's is not known, ``PZC01`` or ``PZC00``; one of ``accept``.
        accept: dialects that are opened.
        accept_serializers: names or families that are opened, and in PZC01 ``link`` beside them;
            default all, or only the ones that never unpickle when ``serializer`` is one of these.
        seal: encrypts the contents of everything this side sends.
        max_content: limit of frame 2 in bytes.

    Attributes:
        suite: AES-256-GCM for what is encrypted; None for HMAC-SHA256, or that of the request.
        trusted: ids of the keys whose pickles may be unpickled in full.

    Raises:
        ConfigError: for an unknown dialect, or a key so short that it could be guessed.
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
        seal: bool = False,
        max_content: int = MAX_CONTENT,
    ) -> None:
        serializers.validate(serializer)
        self.keyring = keyring
        self.trusted = frozenset[str]() if keyring is None else keyring.trusted
        self.serializer = serializer
        self.accept = _known("dialect", (*accept,), DIALECTS)
        self.dialect = _known("dialect", (dialect,), self.accept)[0]
        if keyring is not None and self.accept != (PZC00,):
            keyring.check_lengths()
        self.suite = Suite.AES256_GCM if seal else None
        self.accept_serializers = (
            serializers.default_accept(serializer)
            if accept_serializers is None
            else frozenset(_family(name) for name in accept_serializers)
        )
        self._opened = self.accept_serializers | serializers.STRUCTURAL
        self.max_content = max_content

    def serializer_for(self, key: Key | None) -> str:
        """Name of the serializer of what a key signs: no pickle where no receiver would believe it."""
        untrusted = key is None or not key.trusted
        return "msgpack" if untrusted and serializers.family(self.serializer) == "pickle" else self.serializer

    def pack_notification(self, content: object, allocate: Allocate | None = None) -> tuple[str, Data]:
        """Serializer and bytes of what is published.

        Whatever has a kind is written without pickle, signed or not, because recorders store it and pipelines
        read it without the publisher's classes. The rest is pickled where a key makes readers believe that.

        Raises:
            SerializeError: when the serializer cannot express the content.
        """
        if serializers.family(self.serializer) != "pickle":
            return serializers.pack(self.serializer, content, allocate)
        try:
            return serializers.pack("msgpack", content, allocate)
        except SerializeError:
            if self.keyring is None or not self.keyring.publishing.trusted:
                raise
            return serializers.pack(self.serializer, content, allocate)

    @property
    def suites(self) -> list[str]:
        """Names of the suites that are opened; empty without keys."""
        return [] if self.keyring is None else list(SUITES)

    def encode(
        self,
        sender: str,
        topic: str,
        content: object,
        *,
        stamp: Stamp,
        msgid: str | None = None,
        sequence: int = 0,
        key: str = "",
        receiver: str = "",
        dialect: str | None = None,
        serializer: str | None = None,
    ) -> list[Buffer]:
        """Five frames, of what is said outside of sessions and series; `Session` and `Records` make the same.

        Args:
            sender: agent id, or REP endpoint for PZC00.
            topic: empty for requests and replies.
            content: anything the serializer can express.
            stamp: fresh, the sender's own.
            msgid: that of the request, when replying.
            sequence: number within the topic.
            key: what the notification is about within its topic; not written by PZC00.
            receiver: agent id of the receiver; empty for notifications and the handshake.
            dialect: default the codec's.
            serializer: default the codec's.

        Raises:
            SerializeError: when the serializer cannot express the content.
            LocalProtocolError: when the wire cannot carry it.
        """
        kind = _REPLY if msgid is not None else _NOTIFICATION if topic else _REQUEST
        signer = None if self.keyring is None else self.keyring.signer(kind)
        old = (dialect or self.dialect) == PZC00
        name = serializer or (self.serializer if old else self.serializer_for(signer))
        if topic and not old and serializer is None:
            name, body = self.pack_notification(content)
        else:
            body = serializers.encode(name, content)
        if len(body) > self.max_content:
            raise too_large(len(body), self.max_content)
        if old:
            own = stamp.urn() if msgid is None else msgid
            return original.encode(self.keyring, sender, topic, name, body, own)
        msgid_frame = stamp.urn_frame() if msgid is None else format_msgid(msgid)
        header = format_header(PZC01, sender, topic, sequence if msgid is None else stamp.hex(), key)
        suite = self.suite or Suite.HMAC_SHA256
        sealer = signing.sealer(signer, suite, kind, sender, receiver, stamp.epoch)
        tag, body = sealer.seal(stamp, header, name.encode(), msgid_frame, body)
        return [header, name.encode(), body, msgid_frame, tag.join(sealer.mark)]

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
    ) -> Message:
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
        if header.kind is None:
            return self._open_00(frames, header, kind, seen)
        if kind is not None and header.kind is not kind:
            raise FrameError(f"expected a {kind.name.lower()}, received another kind")
        name, msgid = text("serializer", frames[1]), text("message id", frames[3])
        stamp, signature = header.own or ids.parse_urn(msgid), signing.split(frames[4])
        signer = self._signer_01(signature, header.kind)
        sealer = _sealer(signer, signature.suite, header.kind, header.sender, receiver, stamp.epoch)
        content = sealer.open(stamp, frames[0], frames[1], frames[3], frames[2], signature.tag)
        if signer is not None:
            if now_ms is not None and not -FRESH_MS <= now_ms + offset_ms - stamp.ms <= FRESH_MS:
                raise stale(now_ms + offset_ms - stamp.ms)
            if window is not None:
                window.admit((signer.key_id, header.sender, stamp.epoch), stamp.ms, stamp.counter)
        if not self.opens(name):
            raise self.refused(name)
        trusted = signer is not None and signer.trusted and (bool(receiver) or header.kind is _NOTIFICATION)
        facts = Facts.of(PZC01, header.kind, header.sender, header.topic, signer, trusted=trusted)
        return Message(facts, msgid, stamp, name, content, int(signature.suite), header.sequence, header.key)

    def opens(self, name: str) -> bool:
        """True when contents in that serializer are opened."""
        return serializers.family(name) in self._opened

    def _signer_01(self, signature: signing.Signature, kind: Kind) -> Key | None:
        signing.check_signed(signature.suite, self.keyring is not None)
        if self.keyring is None:
            return None
        key = self.keyring.find(signature.rest)
        if key is None:
            raise SignatureError(f"signed with the unknown key {signature.rest[:16]!r}: keys differ")
        return self.keyring.of_asker(key) if kind is _REQUEST else key

    def _open_00(
        self, frames: Sequence[Buffer], header: Header, kind: Kind | None, seen: SeenSignatures | None
    ) -> Message:
        envelope = original.open_frames(self.keyring, header, frames, kind)
        if seen is not None and envelope.signer is not None:
            seen.admit(bytes(frames[4]), envelope.key_id)
        if serializers.family(envelope.serializer) not in self.accept_serializers:
            raise self.refused(envelope.serializer)
        return envelope

    def refused(self, name: str) -> SerializerRefused:
        """The error that says that a serializer is not opened here."""
        accepted = ", ".join(sorted(self.accept_serializers))
        return SerializerRefused(f"serializer {name!r} is not accepted here, only {accepted}")


def _family(name: str) -> str:
    serializers.validate(name)
    return serializers.family(name)


def stale(late_ms: int) -> StaleMessage:
    """The error of a message that is so many milliseconds old, or ahead when negative."""
    return StaleMessage(
        f"message is {abs(late_ms) / 1000:.1f} s {'old' if late_ms > 0 else 'ahead'}, "
        f"the limit is {FRESH_MS // 1000} s; compare the clocks of both machines"
    )


def too_large(size: int, limit: int) -> LocalProtocolError:
    """The error of a content of so many bytes."""
    return LocalProtocolError(f"content has {size} bytes, the limit is {limit}")


def _known(what: str, names: tuple[str, ...], known: Iterable[str]) -> tuple[str, ...]:
    allowed = tuple(known)
    for name in names:
        if name not in allowed:
            raise ConfigError(f"unknown {what} {name!r}, expected one of {', '.join(allowed)}")
    if not names:
        raise ConfigError(f"at least one {what} is needed, out of {', '.join(allowed)}")
    return names
