"""Handshake: the messages by which both ends of a connection prove their key, and agree on new ones.

::

    1 hello   client → server   who it is, what it wants and can do, its key id, a nonce
    2 answer  client ← server   who it is, the chosen suite, a nonce
    3 finish  client → server   HMAC of the transcript; proof of the session
    4 done    client ← server   HMAC of the transcript

The transcript is a hash of messages 1 and 2 and of the carrier: when one of them was changed on its way, the
ends have other keys, and neither accepts the HMAC of the other. Without a key the handshake ends with message
2 and proves nothing. ``docs/wire.md`` has every field. Random bytes are arguments.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Literal, TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from msgspec import DecodeError, Meta, Struct, json

from .codec import Codec
from .errors import LocalProtocolError, PeerLost, PzcError, RemoteProtocolError, SignatureError, VersionError
from .frames import Buffer, Kind
from .keyring import Key
from .session import ARRAYS, REFERENCES
from .shown import printable
from .signing import SUITES, Suite, mismatch

VERSION = 2
RANDOM_SIZE = 64
"""Random bytes that each end brings: a nonce, and a private key of X25519."""

MAX_MESSAGE = 4096
"""Bytes of one message."""

ABILITIES = ARRAYS | REFERENCES
"""What this side can read besides plain contents."""

ResumeKeyOf = Callable[[str, str, str], bytes | None]
"""Resume key of a session, by session, agent id and key id of its client; None when it is not known.

It raises PeerLost to refuse a client that has no place."""

_MAX_TEXT = 500
_REFUSALS = {each.__name__: each for each in (SignatureError, VersionError, PeerLost, RemoteProtocolError)}
"""What a refusal may raise at the client; a subclass stands before its base."""

T = TypeVar("T", bound=Struct)
_Id = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Number = Annotated[int, Meta(ge=0, lt=1 << 32)]
_Word = Annotated[str, Meta(max_length=32)]


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a handshake settled.

    Attributes:
        peer_id, peer_epoch: the agent at the other end.
        session: of the client, 32 hex digits.
        resumed: True when the server knew the session already.
        key: that proved the peer, as this side's keyring has it; None without keys.
        suite: number of the `Suite` of all messages that follow.
        send_key, receive_key: 32 bytes each; empty without keys, as the next two are.
        resume_key: proves the session on its later connections; that of its first one.
        binding_id: 8 bytes, public.
        abilities, peer_abilities: bits such as `ARRAYS`, of this side and of the peer.
    """

    peer_id: str
    peer_epoch: int
    session: str
    resumed: bool
    key: Key | None
    suite: int
    send_key: bytes = field(repr=False)
    receive_key: bytes = field(repr=False)
    resume_key: bytes = field(repr=False)
    binding_id: bytes
    abilities: int
    peer_abilities: int


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The session of a client: id, `RANDOM_SIZE` new random bytes, its key unless it begins here."""

    session: str
    random: bytes = field(repr=False)
    resume_key: bytes | None = field(default=None, repr=False)


class _HandshakeMessage(Struct, frozen=True, forbid_unknown_fields=True, tag_field="pzc"): ...


class _OpeningMessage(_HandshakeMessage, frozen=True):
    version: Literal[2]
    agent_id: _Id
    epoch: _Number
    abilities: _Number
    nonce: _Hash
    exchange: _Hash


class _HelloMessage(_OpeningMessage, frozen=True, tag="handshake-hello"):
    session: _Id
    target: Annotated[str, Meta(pattern=r"^([0-9a-f]{32})?\Z")]
    key_id: Annotated[str, Meta(pattern=r"^([0-9a-f]{8})?\Z")]
    suites: Annotated[list[_Word], Meta(max_length=8)]


class _AnswerMessage(_OpeningMessage, frozen=True, tag="handshake-answer"):
    suite: _Word
    known: bool


class _FinishMessage(_HandshakeMessage, frozen=True, tag="handshake-finish"):
    binding: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
    proof: _Hash
    resume: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")]


class _DoneMessage(_HandshakeMessage, frozen=True, tag="handshake-done"):
    proof: _Hash


class _RefusalMessage(_HandshakeMessage, frozen=True, tag="handshake-refused"):
    code: _Word
    text: Annotated[str, Meta(max_length=_MAX_TEXT)]


class _VersionMessage(Struct):
    version: Annotated[int, Meta(ge=0, lt=1000)] = VERSION


class _HandshakeKeys:
    """Keys of one transcript, by HKDF-SHA256 (RFC 5869), and proofs that a side has them."""

    def __init__(self, secret: bytes, hello: _HelloMessage, answer: _AnswerMessage, carrier: str) -> None:
        parts = json.encode(hello), json.encode(answer), carrier.encode()
        self._transcript = sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()
        self._extracted = hmac.digest(bytes.fromhex(hello.nonce + answer.nonce), secret, "sha256")
        self.client, self.server = self._derive(b"client key"), self._derive(b"server key")
        self.client_proof = self.proof(self._derive(b"client finish"))
        self.server_proof = self.proof(self._derive(b"server finish"))
        self.resume, self.binding_id = self._derive(b"resume"), self._derive(b"binding id")[:8]

    def _derive(self, purpose: bytes) -> bytes:
        return hmac.digest(self._extracted, b"pzc " + purpose + self._transcript + b"\x01", "sha256")

    def proof(self, key: bytes) -> str:
        """HMAC of the transcript."""
        return hmac.digest(key, self._transcript, "sha256").hex()


class ClientHandshake:
    """The end that connects; for one use.

    Args:
        codec: its keyring gives the key to ask with, its ``suite`` whether all must be encrypted.
        agent_id, epoch: of this side.
        target: agent id of the wanted server; empty over REP when it is not known yet.
        carrier: ``unix``, ``tcp`` or ``rep``.
        options: the session.
    """

    def __init__(
        self, codec: Codec, agent_id: str, epoch: int, target: str, carrier: str, options: SessionOptions
    ) -> None:
        self.agent_id, self.epoch = agent_id, epoch
        self._carrier, self._resume_key = carrier, options.resume_key
        self._key = None if codec.keyring is None else codec.keyring.signer(Kind.REQUEST)
        nonce, self._private, exchange = _split(options.random)
        self._hello = _HelloMessage(
            VERSION, agent_id, epoch, ABILITIES, nonce, exchange, options.session, target,
            self._key.key_id if self._key else "", _suites(codec),
        )  # fmt: skip
        self._answer: _AnswerMessage | None = None
        self._keys: _HandshakeKeys | None = None

    def hello(self) -> bytes:
        """Message 1."""
        return json.encode(self._hello)

    def answer(self, second: Buffer) -> bytes | None:
        """Message 3, for message 2; None without keys, when no message 4 follows.

        Raises:
            PeerLost: another agent than the target is there.
            SignatureError: one side alone has a key, or insists on encryption.
            VersionError, RemoteProtocolError: for anything else than a message 2.
        """
        if self._answer is not None:
            raise _over()
        hello, resume = self._hello, self._resume_key
        answer = _read(_AnswerMessage, second)
        if hello.target not in ("", answer.agent_id):
            raise _other_agent(hello.target, answer.agent_id)
        if answer.suite not in hello.suites:
            raise _no_suite([answer.suite], hello.suites)
        if answer.known and resume is None:
            raise SignatureError("the server has a session of this id, which is another's: begin another")
        self._answer = answer
        if self._key is None:
            return None
        secret = self._key.secret + _shared(answer.suite, self._private, answer.exchange)
        self._keys = keys = _HandshakeKeys(secret, hello, answer, self._carrier)
        known = keys.proof(resume) if answer.known and resume is not None else ""
        return json.encode(_FinishMessage(keys.binding_id.hex(), keys.client_proof, known))

    def complete(self, fourth: Buffer | None = None) -> Agreement:
        """What was settled, for message 4, which proves the server; without keys there is none."""
        answer, keys, self._keys = self._answer, self._keys, None
        if answer is None or (keys is None) != (self._key is None) or (fourth is None) != (keys is None):
            raise _over()
        if keys is not None and fourth is not None:
            _check_proof(_read(_DoneMessage, fourth).proof, keys.server_proof)
        resume = self._resume_key if answer.known else None
        return _agreement(self._hello, answer, self._key, keys, resume, asks=True)


class ServerHandshake:
    """The end that accepts a connection; for one use.

    Args:
        codec, agent_id, epoch, carrier: as for `ClientHandshake`.
        random: `RANDOM_SIZE` new random bytes.
        resume_key_of: finds a session; default there is none.

    Attributes:
        agreement: None until the client is proved, or, without keys, until it said hello.
    """

    def __init__(
        self, codec: Codec, agent_id: str, epoch: int, carrier: str, random: bytes,
        resume_key_of: ResumeKeyOf = lambda _session, _agent_id, _key_id: None,
    ) -> None:  # fmt: skip
        self.agent_id, self.epoch = agent_id, epoch
        self.agreement: Agreement | None = None
        self._codec, self._carrier, self._resume_key_of = codec, carrier, resume_key_of
        self._random: tuple[str, X25519PrivateKey, str] | None = _split(random)
        self._under_way: tuple[_HelloMessage, _AnswerMessage, Key, _HandshakeKeys] | None = None

    def hello(self, first: Buffer) -> bytes:
        """Message 2, for message 1.

        Raises:
            PeerLost: the client wants another agent.
            SignatureError: its key is not known, or one side alone has a key, or insists on encryption.
            VersionError, RemoteProtocolError: for anything else than a message 1.
        """
        if self._random is None:
            raise _over()
        (nonce, private, exchange), self._random = self._random, None
        hello = _read(_HelloMessage, first)
        if hello.target != self.agent_id and (hello.target or self._carrier != "rep"):
            raise _other_agent(hello.target, self.agent_id)
        key, own = self._key_of(hello.key_id), _suites(self._codec)
        suite = next((name for name in hello.suites if name in own), None)
        if suite is None:
            raise _no_suite(hello.suites, own)
        known = self._resume_key_of(hello.session, hello.agent_id, hello.key_id) is not None
        answer = _AnswerMessage(VERSION, self.agent_id, self.epoch, ABILITIES, nonce, exchange, suite, known)
        if key is None:
            self.agreement = _agreement(hello, answer, None, None, None, asks=False)
        else:
            secret = key.secret + _shared(suite, private, hello.exchange)
            self._under_way = hello, answer, key, _HandshakeKeys(secret, hello, answer, self._carrier)
        return json.encode(answer)

    def finish(self, third: Buffer) -> bytes:
        """Message 4, for message 3; from then on there is an `agreement`.

        Raises:
            SignatureError: the client has not proved that it has the key, or that the session is its own.
            PeerLost: the session began or ended meanwhile; another handshake may succeed.
            RemoteProtocolError: for anything else than a message 3.
        """
        if self._under_way is None:
            raise _over()
        (hello, answer, key, keys), self._under_way = self._under_way, None
        finish = _read(_FinishMessage, third)
        _check_proof(finish.binding + finish.proof, keys.binding_id.hex() + keys.client_proof)
        resume = self._resume_key_of(hello.session, hello.agent_id, hello.key_id)
        if answer.known != (resume is not None):
            raise PeerLost("the session began or ended during the handshake: connect again")
        if not hmac.compare_digest(finish.resume, "" if resume is None else keys.proof(resume)):
            raise SignatureError("the session is another client's: begin another")
        self.agreement = _agreement(hello, answer, key, keys, resume, asks=False)
        return json.encode(_DoneMessage(keys.server_proof))

    def _key_of(self, key_id: str) -> Key | None:
        ring = self._codec.keyring
        if ring is None or not key_id:
            if ring is not None or key_id:
                here, there = ("none", "a") if ring is None else ("one", "no")
                raise SignatureError(f"the client has {there} key and this agent {here}: set PZC_KEY on both")
            return None
        key = ring.find(key_id)
        if key is None:
            raise SignatureError(f"the key {key_id} is not known here: compare PZC_KEY of both sides")
        return ring.of_asker(key)


def refusal(error: PzcError) -> bytes:
    """What a server sends in place of message 2 or 4, and then hangs up; it proves nothing, and is final."""
    code = next((name for name, each in _REFUSALS.items() if isinstance(error, each)), "RemoteProtocolError")
    return json.encode(_RefusalMessage(code, printable(str(error), _MAX_TEXT)))


def _read(expected: type[T], content: Buffer) -> T:
    """A message, exactly as expected."""
    try:
        if len(content) > MAX_MESSAGE:
            raise DecodeError(f"it has {len(content)} bytes")
        version = json.decode(content, type=_VersionMessage).version
        message = json.decode(content, type=expected | _RefusalMessage) if version == VERSION else None
        if message is not None and json.encode(message) != content:
            raise DecodeError("it has spaces, or fields twice or in another order")
    except (ValueError, RecursionError) as exc:
        raise RemoteProtocolError(
            f"a message of the handshake cannot be used: {printable(str(exc))}"
        ) from None
    if isinstance(message, _RefusalMessage):
        error = _REFUSALS.get(message.code, RemoteProtocolError)
        raise error(f"the peer refused the handshake: {printable(message.text, _MAX_TEXT)}")
    if message is None:
        raise VersionError(
            f"the peer speaks version {version} and this side {VERSION}: update the older side"
        )
    return message


def _suites(codec: Codec) -> list[str]:
    """Names of the suites that this side takes, the preferred one first."""
    if codec.keyring is None:
        return ["none"]
    return [name for name, suite in SUITES.items() if codec.suite in (None, suite)]


def _split(random: bytes) -> tuple[str, X25519PrivateKey, str]:
    """Nonce, private key and public key."""
    if len(random) != RANDOM_SIZE:
        raise LocalProtocolError(f"a handshake takes {RANDOM_SIZE} random bytes, not {len(random)}")
    private = X25519PrivateKey.from_private_bytes(random[32:])
    return random[:32].hex(), private, private.public_key().public_bytes_raw().hex()


def _shared(suite: str, private: X25519PrivateKey, public: str) -> bytes:
    if SUITES[suite] is not Suite.AES256_GCM:
        return b""
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(public)))
    except ValueError:  # a point of small order: everybody would know what is shared
        raise SignatureError("the public key of the peer cannot be used") from None


def _agreement(
    hello: _HelloMessage, answer: _AnswerMessage, key: Key | None, keys: _HandshakeKeys | None,
    resume: bytes | None, *, asks: bool,
) -> Agreement:  # fmt: skip
    peer, suite = answer if asks else hello, int(SUITES.get(answer.suite, Suite.NONE))
    client, server, new, binding_id = b"", b"", b"", b""
    if keys is not None:
        client, server, new, binding_id = keys.client, keys.server, keys.resume, keys.binding_id
    send_key, receive_key = (client, server) if asks else (server, client)
    return Agreement(
        peer.agent_id, peer.epoch, hello.session, answer.known, key, suite, send_key, receive_key,
        new if resume is None else resume, binding_id, ABILITIES, peer.abilities,
    )  # fmt: skip


def _check_proof(given: str, right: str) -> None:
    if not hmac.compare_digest(given, right):
        raise mismatch()


def _other_agent(wanted: str, here: str) -> PeerLost:
    return PeerLost(
        f"agent {wanted or 'without an id'} is wanted, and this is agent {here}: it was restarted"
    )


def _no_suite(theirs: list[str], ours: list[str]) -> SignatureError:
    named = printable(", ".join(theirs), 100)
    return SignatureError(
        f"the peer takes {named}, this side {', '.join(ours)}: compare PZC_KEY and PZC_SEAL"
    )


def _over() -> RemoteProtocolError:
    return RemoteProtocolError("the handshake is over: each of its messages comes once, in their order")
