"""Thousands of notifications at once: what is regular about them is checked for all of them together.

The codec opens one notification after the other. Here message ids and proofs of many rows are
looked at as matrices, and per row only the tag is worked out. Rows that are unusual in anything, or do not
verify, are given back as such, for the codec to judge; nothing is accepted here that it would refuse.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...protocol import signing
from ...protocol.errors import RemoteProtocolError
from ...protocol.frames import MAX_HEADER, PZC01, Kind, read_key, read_sequence
from ...protocol.message import Message
from ...protocol.signing import KEY_ID_SIZE, Suite

Bytes = NDArray[np.uint8]

URN_SIZE = 45
"""Bytes of a message id."""

PROOF_SIZE = 1 + 32 + KEY_ID_SIZE
"""Bytes of frame 4 with HMAC-SHA256."""

_KNOWN_SERIES = 4096  # topics, each of one publisher in one serializer, that are remembered
_URN = b"urn:uuid:00000000-0000-8000-0000-000000000000"
_HYPHENS = [17, 22, 27, 32]
_FIXED = [*range(9), *_HYPHENS, 23]  # 23 is the version
_VARIANT = 28
_DIGITS = [n for n in range(9, URN_SIZE) if n not in _HYPHENS]
_LARGEST = 4096
"""Contents of more bytes are left to the codec, which does not copy them."""

_VALUES = np.full(256, 255, np.uint8)
_VALUES[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16, dtype=np.uint8)


_BLOCK = 64
"""Block size of SHA-256 in bytes; a longer key is not prepared."""


def _hmac_pads(key: bytes) -> tuple[bytes, bytes]:
    """What HMAC-SHA256 hashes before a message, and before the hash of that.

    Args:
        key: of at most `_BLOCK` bytes.
    """
    block = key.ljust(_BLOCK, b"\0")
    return bytes(each ^ 0x36 for each in block), bytes(each ^ 0x5C for each in block)


@dataclass(slots=True)
class Line:
    """What the notifications of one sender, epoch and topic share, and how far their tags are worked out.

    Attributes:
        number: its place in `Bulk.lines`.
        envelope: of the one that was judged by the codec.
        parties: see `signing.parties`.
        inner: hash of the key's inner block.
        outer: hash of its outer block.
        begun: the inner hash after the covered lengths, by lengths of header and content.
    """

    number: int
    envelope: Message
    parties: signing.Parties
    inner: Any
    outer: Any
    begun: dict[tuple[int, int], Callable[[], Any]] = field(default_factory=dict)

    def begin(self, sizes: tuple[int, int], name: bytes) -> Callable[[], Any]:
        """Makes copies of the inner hash of messages of these sizes of header and content."""
        whole = signing.covered(self.parties, bytes(sizes[0]), name, _URN, sizes[1])
        hashed = self.inner.copy()
        hashed.update(whole[: len(whole) - sizes[0] - len(name) - URN_SIZE])
        if len(self.begun) >= _BLOCK:
            self.begun.clear()
        self.begun[sizes] = hashed.copy
        return hashed.copy


class Opened(NamedTuple):
    """The rows that verified, in order.

    Attributes:
        rows: their places among those given.
        lines: number of each one's line.
        sequences: their numbers.
        keys: what they are about; empty when nothing.
        sent_ms: when they were sent.
    """

    rows: list[int]
    lines: list[int]
    sequences: list[int]
    keys: list[str]
    sent_ms: list[int]


class Bulk:
    """Remembers lines; see the module's docstring.

    Attributes:
        lines: that are known; begins anew when there are too many.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._known: dict[tuple[bytes, bytes, bytes], Line] = {}

    def learn(self, frames: Sequence[bytes], envelope: Message) -> None:
        """Remember the line of a notification that the codec has opened."""
        signer = envelope.signer
        if envelope.dialect != PZC01 or envelope.kind is not Kind.NOTIFICATION or signer is None:
            return
        header, name, _, msgid, proof = frames
        regular = len(proof) == PROOF_SIZE and len(msgid) == URN_SIZE and len(signer.hmac_key) <= _BLOCK
        if not regular or proof[0] != Suite.HMAC_SHA256:
            return
        key = (header.rsplit(b"+", 2)[0], name, _tail(msgid, proof))
        if key in self._known:
            return
        inner, outer = map(hashlib.sha256, _hmac_pads(signer.hmac_key))
        parties = signing.parties(Kind.NOTIFICATION, Suite.HMAC_SHA256, signer.key_id, "")
        envelope.content = b""
        line = Line(len(self.lines), envelope, parties, inner, outer)
        self.lines.append(line)
        self._known[key] = line

    def forget(self) -> None:
        """Begin anew when there are too many lines; not while their numbers are needed."""
        if len(self.lines) >= _KNOWN_SERIES:
            self.lines, self._known = [], {}

    def open(
        self,
        headers: Sequence[bytes],
        names: Sequence[bytes],
        contents: Sequence[bytes],
        msgids: Sequence[bytes],
        proofs: Sequence[bytes],
        meet: Callable[[int], None],
    ) -> Opened:
        """Verify rows; those that are not among the opened ones have to be judged by the codec.

        Args:
            headers: frame 0 of each row.
            names: frame 1.
            contents: frame 2.
            msgids: frame 3.
            proofs: frame 4.
            meet: called with the place of a row whose line is not known; it judges it, and may `learn`.
        """
        regular, sent, tails, tags = _look_at(msgids, proofs)
        found = Opened([], [], [], [], sent)
        digests: list[bytes] = []
        rows, lines, sequences, keys, sent_ms = found
        known, join, size = self._known, b"".join, _TAIL
        for row, (header, name, content) in enumerate(zip(headers, names, contents, strict=True)):
            if not regular[row]:
                continue
            parts = header.rsplit(b"+", 2)
            key = (parts[0], name, tails[row * size : row * size + size])
            line = known.get(key)
            if line is None:
                meet(row)
                continue
            sizes = len(header), len(content)
            number = parts[1]
            try:
                if not number.isdigit() or number[0] == 48 or len(number) > 18:
                    sequence = read_sequence(number)
                else:
                    sequence = int(number)
                about = read_key(parts[2]) if parts[2] else ""
            except (RemoteProtocolError, IndexError):
                continue
            if sizes[0] > MAX_HEADER or sizes[1] > _LARGEST:
                continue
            hashed = (line.begun.get(sizes) or line.begin(sizes, name))()
            hashed.update(join((header, name, msgids[row], content)))
            outer = line.outer.copy()
            outer.update(hashed.digest())
            digests.append(outer.digest())
            rows.append(row)
            lines.append(line.number)
            sequences.append(sequence)
            keys.append(about)
        return _matching(found, digests, tags, sent_ms)


def _matching(found: Opened, digests: list[bytes], tags: bytes, sent_ms: list[int]) -> Opened:
    """The rows whose tags hold."""
    rows = found.rows
    wanted = tags if len(rows) * 32 == len(tags) else b"".join(tags[row * 32 : row * 32 + 32] for row in rows)
    if hmac.compare_digest(b"".join(digests), wanted):
        good = range(len(rows))
    else:
        good = [
            n for n, digest in enumerate(digests) if hmac.compare_digest(digest, wanted[n * 32 : n * 32 + 32])
        ]
    if len(good) == len(rows):
        return found._replace(sent_ms=[sent_ms[row] for row in rows])
    return Opened(
        [rows[n] for n in good],
        [found.lines[n] for n in good],
        [found.sequences[n] for n in good],
        [found.keys[n] for n in good],
        [sent_ms[rows[n]] for n in good],
    )


_TAIL = 1 + KEY_ID_SIZE + 8


def _tail(msgid: bytes, proof: bytes) -> bytes:
    """Suite, key id and epoch."""
    return proof[:1] + proof[-KEY_ID_SIZE:] + msgid[-8:]


def _look_at(msgids: Sequence[bytes], proofs: Sequence[bytes]) -> tuple[list[bool], list[int], bytes, bytes]:
    """Which rows have a regular message id and proof; times, tails and tags, zero for the others."""
    ids, good_ids = _matrix(msgids, URN_SIZE)
    ends, good_ends = _matrix(proofs, PROOF_SIZE)
    fixed = np.frombuffer(_URN, np.uint8)[_FIXED]
    digits = _VALUES[ids[:, _DIGITS]]
    variant = _VALUES[ids[:, _VARIANT]]
    regular = (
        good_ids
        & good_ends
        & (ids[:, _FIXED] == fixed).all(1)
        & (digits < 16).all(1)
        & (variant >> 2 == 2)
        & (ends[:, 0] == Suite.HMAC_SHA256)
    )
    time = np.zeros(len(ids), np.int64)
    for column in range(12):
        time = time << 4 | digits[:, column]
    tails = np.concatenate((ends[:, :1], ends[:, -KEY_ID_SIZE:], ids[:, -8:]), axis=1)
    return regular.tolist(), time.tolist(), tails.tobytes(), ends[:, 1:33].tobytes()


def _matrix(frames: Sequence[bytes], size: int) -> tuple[Bytes, NDArray[np.bool_]]:
    """Frames of one size as rows; those of another size are zero, and marked False."""
    whole = b"".join(frames)
    good = np.fromiter((len(frame) == size for frame in frames), np.bool_, len(frames))
    if not good.all():
        whole = b"".join(frame if len(frame) == size else bytes(size) for frame in frames)
    return np.frombuffer(whole, np.uint8).reshape(len(frames), size), good
