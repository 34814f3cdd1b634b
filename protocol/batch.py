"""Many notifications of few senders: what they share is checked once, by the codec, and then remembered.

`Codec.open` judges the first notification of a series; those that differ only in number, key, message id,
content and tag need the tag, and the form of these. Whatever is unusual about one gives None, and the
codec's judgement decides: nothing is accepted here that it would refuse, and no reason is given twice.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from . import limits, signing
from .errors import RemoteProtocolError
from .frames import MAX_CONTENT, MAX_HEADER, PZC01, Buffer, Kind, read_key, read_sequence
from .ids import Stamp, Urns
from .keyring import Key
from .message import Message
from .signing import BLOCK, KEY_ID_SIZE, Suite, hmac_pads

_EPOCH = -8
"""Where the sender's epoch begins in a message id."""


class Tags:
    """HMAC-SHA256 tags of notifications under one key, whose two blocks are hashed once.

    What says the lengths of a notification is kept for the next one. Safe from any thread.

    Args:
        key: whose HMAC key has at most `BLOCK` bytes.
    """

    def __init__(self, key: Key) -> None:
        self._inner, self._outer = map(hashlib.sha256, hmac_pads(key.hmac_key))
        self._parties = signing.parties(Kind.NOTIFICATION, Suite.HMAC_SHA256, key.key_id, "")
        self._known: tuple[tuple[int, ...], bytes] = (), b""

    def of(self, header: bytes, serializer: bytes, msgid: bytes, content: Buffer) -> bytes:
        """The tag of a notification."""
        lengths = len(header), len(serializer), len(msgid), len(content)
        known, opening = self._known
        if known != lengths:
            whole = signing.covered(self._parties, header, serializer, msgid, lengths[3])
            opening = whole[: len(whole) - sum(lengths[:3])]
            self._known = lengths, opening
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(b"".join((opening, header, serializer, msgid, content)))
        outer.update(inner.digest())
        return outer.digest()


@dataclass(slots=True)
class Series:
    """What the notifications of one sender, epoch and topic share.

    Attributes:
        envelope: of the one that was judged by the codec; its content is dropped.
        sealer: opens the others.
        tags: do so faster for HMAC; None for other suites.
        tag_end: where the tag ends in frame 4.
        urns: read their message ids.
        about: what whoever learned it keeps with it.
    """

    envelope: Message
    sealer: signing.Sealer
    tags: Tags | None
    tag_end: int
    urns: Urns = field(default_factory=Urns)
    about: object = None


class Opened(NamedTuple):
    """A verified notification of a series; the content is not decoded."""

    series: Series
    sequence: int
    key: str
    msgid: str
    stamp: Stamp
    content: Buffer


# A named tuple's own constructor is Python code, and takes twice as long.
_new_opened = cast("Callable[[type[Opened], tuple[object, ...]], Opened]", tuple.__new__)


class Batch:
    """Remembers series; see the module's docstring."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Series] = {}

    def learn(self, frames: Sequence[bytes], envelope: Message, about: object = None) -> None:
        """Remember the series of a notification that the codec has opened.

        Args:
            frames: as received.
            envelope: what the codec made of them; its content is dropped.
            about: kept with the series.
        """
        if envelope.dialect != PZC01 or envelope.kind is not Kind.NOTIFICATION:
            return
        header, name, _, msgid, proof = frames
        signature, signer = signing.split(proof), envelope.signer
        tags = None
        if signer is not None and signature.suite is Suite.HMAC_SHA256 and len(signer.hmac_key) <= BLOCK:
            tags = Tags(signer)
        sealer = signing.sealer(
            signer, signature.suite, Kind.NOTIFICATION, envelope.sender, "", envelope.epoch
        )
        tag_end = 1 + len(signature.tag) if signer is not None else len(proof)
        envelope.content = b""
        if len(self._known) >= limits.current.known_series:
            self._known.clear()
        self._known[_shared(header.rsplit(b"+", 2)[0], name, msgid, proof)] = Series(
            envelope, sealer, tags, tag_end, about=about
        )

    def open(self, header: bytes, name: bytes, content: Buffer, msgid: bytes, proof: bytes) -> Opened | None:
        """Verify one notification of a known series; None when the codec has to judge it."""
        parts = header.rsplit(b"+", 2)
        series = self._known.get(_shared(parts[0], name, msgid, proof))
        if series is None or len(header) > MAX_HEADER or len(content) > MAX_CONTENT:
            return None
        try:
            sequence, about = read_sequence(parts[1]), read_key(parts[2]) if parts[2] else ""
            stamp = series.urns.read(msgid)
            tag = proof[1 : series.tag_end]
            if series.tags is None:
                content = series.sealer.open(stamp, header, name, msgid, content, tag)
            elif not hmac.compare_digest(series.tags.of(header, name, msgid, content), tag):
                return None
        except (RemoteProtocolError, UnicodeDecodeError, IndexError):
            return None
        return _new_opened(Opened, (series, sequence, about, str(msgid, "ascii"), stamp, content))


def _shared(opening: bytes, name: bytes, msgid: bytes, proof: bytes) -> tuple[object, ...]:
    return opening, name, proof[:1], len(proof), proof[-KEY_ID_SIZE:], msgid[_EPOCH:]
