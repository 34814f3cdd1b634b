"""Protocol: the codec bound to this process's clock, entropy and settings.

Everything below this layer takes time and ids as arguments; here they get their real source.
"""

from __future__ import annotations

import secrets
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, cast

from ..protocol.codec import Codec, Message
from ..protocol.errors import ConfigError, LocalProtocolError, ProtocolError
from ..protocol.frames import MAX_MSGID, PZC00, PZC01, Buffer, Kind, topic_filter
from ..protocol.ids import EPOCH_BITS, MessageIds
from ..protocol.keyring import Keyring, refuse_to_travel
from ..protocol.window import ReplayWindow, SeenSignatures
from .settings import Settings, load
from .tables import Table


class _Live(Table):
    """Every protocol of the process, each with an epoch of its own in a forked child."""

    def __init__(self) -> None:
        self.protocols: weakref.WeakSet[Protocol] = weakref.WeakSet()
        super().__init__()

    def forget(self) -> None:
        for protocol in list(self.protocols):
            protocol.begin_epoch()


_live = _Live()


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


class Protocol:
    """How an agent formats, signs, checks and decodes messages.

    Without arguments everything comes from ``PZC_KEY``, ``PZC_SER``, ``PZC_ACCEPT`` and
    ``PZC_SEAL`` (see `settings`). The calls `format` and `parse` are the original
    Pizco's; `parse` keeps no replay memory (agents do).

    Args:
        hmac_key: signing key; empty sends and accepts unsigned messages only.
        serializer: ``pickle``, ``pickleN``, ``json`` or ``msgpack``. Without a key of role operator or above,
            PZC01 sends ``msgpack`` instead of a pickle, which no receiver would believe.
        dialect: spoken when the peer's is unknown, ``PZC01`` or ``PZC00``; ``PZC00`` when no other
            is accepted.
        accept: dialects that are accepted; default both, with a key ``PZC01`` alone unless ``dialect``
            asks for ``PZC00``: that dialect says neither for whom a signed message is nor when it was made.
        accept_serializers: serializers that are accepted; default all, or only those that never
            unpickle when ``serializer`` is ``json`` or ``msgpack``.
        keyring: keys with names and roles, instead of ``hmac_key``.
        seal: encrypts contents with AES-256-GCM; default what ``PZC_SEAL`` says.

    Attributes:
        codec: of these settings.
        ids: gives the message ids of this epoch.

    Raises:
        ConfigError: for a setting that cannot be used, alone or together with another.
        LocalProtocolError: for an unknown serializer.
    """

    def __init__(
        self,
        hmac_key: str | None = None,
        serializer: str | None = None,
        *,
        dialect: str = PZC01,
        accept: Iterable[str] | None = None,
        accept_serializers: Iterable[str] | None = None,
        keyring: Keyring | None = None,
        seal: bool | None = None,
        settings: Settings | None = None,
    ) -> None:
        settings = settings or load()
        if keyring is None:
            keyring = (
                settings.keyring() if hmac_key is None else Keyring.from_key(hmac_key) if hmac_key else None
            )
        elif not isinstance(cast("object", keyring), Keyring):
            kind = type(keyring).__name__  # it may be a key, which is never shown
            raise ConfigError(f"keyring=<{kind}> cannot be used: expected pzc.Keyring.load(path)")
        sealed = settings["PZC_SEAL"] if seal is None else seal
        if sealed and keyring is None and hmac_key is None:
            raise ConfigError("PZC_SEAL=1 needs a key to encrypt with: set PZC_KEY or PZC_KEY_FILE")
        accepted = _accepted(settings, keyring, dialect) if accept is None else tuple(accept)
        self.codec = Codec(
            keyring,
            serializer=serializer or settings["PZC_SER"],
            dialect=PZC00 if dialect == PZC01 and accepted == (PZC00,) else dialect,
            accept=accepted,
            accept_serializers=accept_serializers,
            seal=sealed,
        )
        self.begin_epoch()
        _live.protocols.add(self)

    def __repr__(self) -> str:
        signed = f"signed by {self.codec.keyring.active.name}" if self.codec.keyring else "unsigned"
        return f"<Protocol {self.codec.dialect} {self.codec.serializer} {signed}>"

    def __getstate__(self) -> dict[str, Codec]:
        if self.signed:
            refuse_to_travel("a protocol", self)
        return {"codec": self.codec}

    def __setstate__(self, state: dict[str, Codec]) -> None:
        self.codec = state["codec"]
        self.begin_epoch()
        _live.protocols.add(self)

    @property
    def epoch(self) -> int:
        """32-bit number of this start; a fork begins a new one."""
        return self.ids.epoch

    @property
    def fingerprint(self) -> Hashable:
        """Equal for protocols that send and accept the same."""
        codec = self.codec
        ring = codec.keyring
        keys: tuple[Hashable, ...] = ()
        if ring is not None:
            chosen = ring.active.key_id, ring.calling.key_id, self.publishing_key
            keys = (*chosen, *sorted((key.key_id, key.role) for key in ring))
        return (
            keys, codec.serializer, codec.dialect, codec.accept, codec.accept_serializers,
            codec.suite,
        )  # fmt: skip

    @property
    def publishing_key(self) -> str:
        """Id of the key that signs notifications; empty without keys."""
        return "" if self.codec.keyring is None else self.codec.keyring.publishing.key_id

    def verifies(self, key_id: str) -> bool:
        """True when what that key signs can be verified here."""
        ring = self.codec.keyring
        return ring is None or ring.find(key_id) is not None

    @property
    def signed(self) -> bool:
        """True when messages are signed and unsigned ones refused."""
        return self.codec.keyring is not None

    def begin_epoch(self) -> None:
        """Draw a new epoch and counter start, so that no nonce of the old one can come back."""
        self.ids = MessageIds(secrets.randbits(EPOCH_BITS), secrets.randbits(40))

    def counter(self) -> Callable[[], int]:
        """The source of this epoch's counters; whoever takes one makes the id with it."""
        return self.ids.count

    def new_urn(self) -> str:
        """A fresh message id."""
        return self.ids.next_urn(now_ms())

    def encode(
        self,
        sender: str,
        topic: str,
        content: object,
        *,
        reply_to: str | None = None,
        sequence: int = 0,
        key: str = "",
        receiver: str = "",
        dialect: str | None = None,
        serializer: str | None = None,
    ) -> list[Buffer]:
        """Five frames; ``reply_to`` is the request's id, the other options are those of `Codec.encode`.

        Raises:
            SerializeError: when the serializer cannot express the content.
            LocalProtocolError: when the wire cannot carry it.
        """
        return self.codec.encode(
            sender, topic, content, stamp=self.ids.next(now_ms()), msgid=reply_to, sequence=sequence, key=key,
            receiver=receiver, dialect=dialect, serializer=serializer,
        )  # fmt: skip

    def open(
        self,
        frames: Sequence[Buffer],
        kind: Kind,
        *,
        receiver: str = "",
        judge_time: bool = True,
        offset_ms: int = 0,
        window: ReplayWindow | None = None,
        seen: SeenSignatures | None = None,
    ) -> Message:
        """Verify five frames now; arguments and errors as `Codec.open`."""
        return self.codec.open(
            frames,
            kind=kind,
            receiver=receiver,
            now_ms=now_ms() if judge_time else None,
            offset_ms=offset_ms,
            window=window,
            seen=seen,
        )

    def format(
        self,
        sender: str,
        topic: str = "",
        content: object = "",
        msgid: str | None = None,
        just_header: bool = False,
    ) -> Any:
        """Five frames as a list of bytes, as the original's method of that name.

        Args:
            sender: agent id, or REP endpoint for PZC00.
            topic: empty for requests and replies.
            content: anything the serializer can express.
            msgid: id to echo; None or empty draws a fresh one.
            just_header: return the bytes to subscribe to the topic with, instead of a list.

        Raises:
            ProtocolError: when the content or header cannot be formatted.
        """
        if just_header:
            return topic_filter(self.codec.dialect, sender, topic)
        if msgid and len(msgid.encode(errors="replace")) > MAX_MSGID:
            raise LocalProtocolError(f"a message id may have {MAX_MSGID} bytes, not {len(msgid)} characters")
        try:
            frames = self.encode(sender, topic, content, reply_to=msgid or None)
        except TypeError as exc:
            raise LocalProtocolError(f"content cannot be formatted: {exc}") from exc
        return [bytes(frame) for frame in frames]

    def parse(
        self, message: Sequence[Buffer], check_sender: str | None = None, check_msgid: str | None = None
    ) -> tuple[str, str, Any, str]:
        """Verify and decode five frames, as the original's method of that name.

        Returns:
            sender, topic, content, message id.

        Raises:
            ProtocolError: for anything wrong with the frames, sender or id.
        """
        envelope = self.codec.open(message, now_ms=now_ms())
        if check_sender and check_sender != envelope.sender:
            raise ProtocolError(f"wrong sender: expected {check_sender}, received {envelope.sender}")
        if check_msgid and check_msgid != envelope.msgid:
            raise ProtocolError(f"wrong message id: expected {check_msgid}, received {envelope.msgid}")
        return envelope.sender, envelope.topic, envelope.decode(), envelope.msgid


def _accepted(settings: Settings, keyring: Keyring | None, dialect: str) -> tuple[str, ...]:
    # A captured PZC00 message holds for every agent of the key, and after each restart anew.
    if keyring is not None and dialect == PZC01 and settings.origin["PZC_ACCEPT"] == "default":
        return (PZC01,)
    return settings["PZC_ACCEPT"]


def chosen(protocol: Protocol | None, settings: Settings | None = None) -> Protocol:
    """The protocol that was given, or by default the one of the settings; ConfigError for anything else."""
    if protocol is None:
        return Protocol(settings=settings)
    if not isinstance(cast(object, protocol), Protocol):
        kind = type(protocol).__name__  # it may be a key, which is never shown
        raise ConfigError(f"protocol=<{kind}> cannot be used: expected pzc.Protocol(...)")
    return protocol
