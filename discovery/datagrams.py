"""Datagrams: the bytes of announcements, signed.

::

    "PZD" version:1 code:1 suite:1 hops:1 body [key id:8 tag:32]

The version is ``1``, the code that of the announcement, the body its MessagePack. Suite 1 signs with
HMAC-SHA256, suite 0 not at all; key id and tag are there with suite 1. The tag covers all that stands before
it except ``hops``: whoever passes a datagram on sets that to 1, so it is passed on once. A key below operator
may only ask.

Whoever reads verifies, then decodes. Whatever the bytes are, the answer is an announcement or a `Refusal`.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec.structs import replace

from ..protocol.keyring import Key, Keyring, Role
from .names import MAX_NAME
from .records import KINDS, AgentRecord, Announcement, Record, Subscribe, fault

MAX_DATAGRAM = 1400
"""Bytes of a datagram; larger ones are refused."""

CODE_AT = 4
"""Offset of the byte that tells announcements apart."""

VERSION = b"1"
Reason = Literal["malformed", "version", "unsigned", "foreign_key", "forged", "role"]

_MAGIC = b"PZD"
_HEADER = 7
_HOPS = 6
_KEY_ID = 8
_TAIL = _KEY_ID + 32
_is_key_id = re.compile(rb"[0-9a-f]{8}").fullmatch
_ENCODER = msgspec.msgpack.Encoder()
_DECODERS = {code: msgspec.msgpack.Decoder(kind) for code, kind in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Bytes that are no announcement for this process.

    Attributes:
        reason: under which it is counted.
        detail: what people read; names both versions, or the key id.
    """

    reason: Reason
    detail: str


class Reader:
    """Turns datagrams into announcements.

    Args:
        keyring: keys that are accepted; None to accept what is not signed, and nothing else.

    Attributes:
        refused: how many datagrams, by reason.
        last: the last refusal by reason, for people.
    """

    def __init__(self, keyring: Keyring | None) -> None:
        self._keyring = keyring
        self.refused: dict[Reason, int] = {}
        self.last: dict[Reason, Refusal] = {}

    def read(self, datagram: bytes) -> Announcement | Refusal:
        """Verify, then decode; raises nothing."""
        body = self._verified(datagram)
        if isinstance(body, memoryview):
            body = _decoded(datagram[4], body)
        if isinstance(body, Refusal):
            self.refused[body.reason] = self.refused.get(body.reason, 0) + 1
            self.last[body.reason] = body
        return body

    def _verified(self, datagram: bytes) -> memoryview | Refusal:
        if datagram[:3] != _MAGIC:
            return Refusal("malformed", "it does not begin with PZD")
        if datagram[3:4] != VERSION:
            theirs = datagram[3:4].decode("ascii", "backslashreplace")
            return Refusal(
                "version", f"version {theirs!r} of discovery; this side speaks {VERSION.decode()!r}"
            )
        if not _HEADER < len(datagram) <= MAX_DATAGRAM:
            return Refusal("malformed", f"it has {len(datagram)} bytes, expected 8 to {MAX_DATAGRAM}")
        suite = datagram[5]
        if suite == 0:
            if self._keyring is not None:
                return Refusal(
                    "unsigned", "it is not signed, and this process accepts only what its keys signed"
                )
            return memoryview(datagram)[_HEADER:]
        if suite != 1 or len(datagram) <= _HEADER + _TAIL:
            return Refusal("malformed", f"suite {suite} is not known, or there is no room for a tag")
        return self._signed(datagram)

    def _signed(self, datagram: bytes) -> memoryview | Refusal:
        key_id = datagram[-_TAIL : _KEY_ID - _TAIL]
        if not _is_key_id(key_id):
            return Refusal("malformed", "the key id is not 8 hex digits")
        known = key_id.decode()
        key = None if self._keyring is None else self._keyring.find(known)
        if key is None:
            has = "has no key" if self._keyring is None else "does not have it"
            return Refusal(
                "foreign_key", f"it is signed with key {known}, and this process {has}; set PZC_KEY"
            )
        if not hmac.compare_digest(_tag(key, datagram[:-32]), datagram[-32:]):
            return Refusal("forged", f"it claims to be signed with key {known}, and is not")
        if key.role < Role.OPERATOR and datagram[CODE_AT] != Subscribe.code:
            return Refusal("role", f"key {key.name} is {key.role.name.lower()}; to announce takes operator")
        return memoryview(datagram)[_HEADER:-_TAIL]


def _decoded(code: int, body: memoryview) -> Announcement | Refusal:
    decoder = _DECODERS.get(code)
    if decoder is None:
        return Refusal("malformed", f"code {code} is not known")
    try:
        said = decoder.decode(body)
        why = fault(said)
    except Exception as error:  # msgspec lets those of Unicode and of recursion through
        return Refusal("malformed", f"{type(error).__name__}: {error}"[:200])
    return Refusal("malformed", why) if why else said


def _tag(key: Key, start: bytes) -> bytes:
    covered = start if start[_HOPS] == 0 else b"".join((start[:_HOPS], b"\0", start[_HEADER:]))
    return hmac.digest(key.discovery_key, covered, "sha256")


def write(said: Announcement, key: Key | None) -> bytes:
    """The datagram of an announcement; signed with ``key``, if there is one."""
    start = b"%b%b%c%c\0%b" % (_MAGIC, VERSION, said.code, key is not None, _ENCODER.encode(said))
    if key is None:
        return start
    start += key.key_id.encode()
    return start + _tag(key, start)


def key_of(datagram: bytes) -> str:
    """Id of the key that signed a datagram which was read; empty for one that is not signed."""
    return datagram[-_TAIL : _KEY_ID - _TAIL].decode() if datagram[5] else ""


def passed_on(datagram: bytes) -> bytes:
    """The same datagram, marked as passed on."""
    return b"".join((datagram[:_HOPS], b"\1", datagram[_HEADER:]))


def was_passed_on(datagram: bytes) -> bool:
    """Whether somebody else than its process sent the datagram."""
    return datagram[_HOPS : _HOPS + 1] not in (b"", b"\0")


_ROOM = MAX_DATAGRAM - _HEADER - _TAIL - 100
"""Bytes for records and partition; all other fields take at most 100."""


def batches(records: Sequence[Record], partition: str) -> Iterator[tuple[Record, ...]]:
    """Divide records, in their order, so that each part fits into one datagram."""
    room = _ROOM - len(partition.encode())
    part: list[Record] = []
    used = 0
    for record in records:
        size = size_of(record)
        if part and used + size > room:
            yield tuple(part)
            part, used = [], 0
        part.append(record)
        used += size
    if part:
        yield tuple(part)


def fitting(record: Record) -> Record:
    """The record, without its last addresses when it would be too large for a datagram."""
    while (
        isinstance(record, AgentRecord) and size_of(record) > _ROOM - MAX_NAME and len(record.addresses) > 1
    ):
        record = replace(record, addresses=record.addresses[:-1], pub_addresses=record.pub_addresses[:-1])
    return record


def size_of(record: Record) -> int:
    """Bytes of a record."""
    return len(_ENCODER.encode(record))
