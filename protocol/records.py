"""Records: the five frames of notifications, sealed once by their publisher, whichever way they go.

What goes together is sealed together, by whoever sends it.

They are what `Codec.encode` makes of the same notification, to the last byte. Broadcast sends them as they
are; the rows of a mailbox leave out what both ends can make again::

    frame        in a row
    0 header     made by both ends out of sender, topic, number and key, so it says what the row says
    1 serializer as it is
    2 content    the body; encrypted when the suite does that
    3 message id ``msgid``, of the time of sending and the sender's epoch
    4 signature  ``signature``

Whoever reads records trusts the line that they came over: `Opener` verifies no signature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from . import ids, signing
from .codec import Codec
from .errors import ProtocolError, RemoteProtocolError
from .frames import MAX_HEADER, PZC01, Buffer, Kind, close_header, open_header
from .ids import Stamp
from .keyring import Key
from .link_messages import Body, Row
from .memo import Memo
from .signing import BLOCK, KEY_ID_SIZE, LARGE, TAG_SIZE, Sealer, Suite, hmac_pads

_HMAC, _GMAC = Suite.HMAC_SHA256, Suite.AES256_GMAC
_MSGID_SIZE = 45
_PREFIX_SIZE = 24
_DIGITS = 20
"""Room for a number and a ``+`` behind the opening of a header."""

_SHORT = 150
"""Characters of a topic and a key together that surely fit into a header, whatever they are."""

_ANY_STAMP = Stamp(0, 0, 0)

Frames = tuple[bytes, bytes, Body, bytes, bytes]
"""Header, serializer, content, message id, signature."""

BESIDE = 224
"""Bytes of a record's frames beside content, topic and key, at most."""


class Record(Struct, eq=False, gc=False):
    """A notification that is sealed when it goes, the same for all that it goes to.

    Attributes:
        topic: of the notification.
        row: of the notification, without proof.
        frames: of the notification, sealed; None as long as nobody needed them.
    """

    topic: str
    row: Row
    frames: Frames | None = None

    @property
    def proven(self) -> Row:
        """The row with frames 2 to 4, once it is sealed."""
        if self.frames is None:
            return self.row
        row, (_, _, content, msgid, signature) = self.row, self.frames
        return Row(row.number, row.sent_ms, row.key, row.serializer, content, 0, 0, msgid, signature)


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
            opening = self._opening(header, serializer, msgid, content)
            self._known = lengths, opening
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(b"".join((opening, header, serializer, msgid, content)))
        outer.update(inner.digest())
        return outer.digest()

    def _opening(self, header: bytes, serializer: bytes, msgid: bytes, content: Buffer) -> bytes:
        whole = signing.covered(self._parties, header, serializer, msgid, len(content))
        return whole[: len(whole) - len(header) - len(serializer) - len(msgid)]


class _Shared(NamedTuple):
    """What the notifications of one topic share, in one serializer, small ones or large ones.

    Attributes:
        opening: of their headers.
        roomy: any number fits behind it.
        serializer: frame 1.
        tags: of HMAC-SHA256; None when `sealer` makes them.
        sealer: what else proves them.
        stamped: it needs the stamp in the message id.
        mark: what stands before and behind the tag.
    """

    opening: bytes
    roomy: bool
    serializer: bytes
    tags: Tags | None
    sealer: Sealer
    stamped: bool
    mark: tuple[bytes, bytes]


class Records:
    """Seals what one agent publishes in one epoch, with all that is constant prepared; any thread.

    Args:
        codec: whose key of notifications and suite count.
        sender: agent id.
        epoch: of the sender.
        urn: gives a fresh frame 3 of that epoch for a time in Unix milliseconds.
    """

    def __init__(self, codec: Codec, sender: str, epoch: int, urn: Callable[[int], bytes]) -> None:
        self._codec = codec
        self._sender = sender
        self._epoch = epoch
        self._urn = urn
        self._known: Memo[Hashable, _Shared] = Memo()

    def check(self, topic: str, number: int, key: str, serializer: str) -> None:
        """Judge whether a header can carry a notification.

        Raises:
            LocalProtocolError: when none can.
        """
        if len(topic) + len(key) > _SHORT:
            close_header(self._shared(topic, serializer, False).opening, number, key)

    def seal(self, records: Iterable[Record]) -> list[Frames | None]:
        """The five frames of each, as they are or new; None for what the wire cannot carry."""
        known, next_urn = self._known.get, self._urn
        made: list[Frames | None] = []
        for record in records:
            if record.frames is not None:
                made.append(record.frames)
                continue
            topic, row = record.topic, record.row
            number, key, name, body = row.number, row.key, row.serializer, row.body
            large = len(body) > LARGE
            try:
                shared = known((topic, name, large)) or self._shared(topic, name, large)
                opening, roomy, named, tags, sealer, stamped, mark = shared
                simple = roomy and not key
                header = b"%b%d+" % (opening, number) if simple else close_header(opening, number, key)
                msgid = next_urn(row.sent_ms)
                if tags is not None:
                    tag = tags.of(header, named, msgid, body)
                else:
                    stamp = ids.parse_urn(msgid.decode()) if stamped else _ANY_STAMP
                    tag, body = sealer.seal(stamp, header, named, msgid, body)
                made.append((header, named, body, msgid, tag.join(mark)))
            except ProtocolError:
                made.append(None)
        return made

    def _shared(self, topic: str, serializer: str, large: bool) -> _Shared:
        known = self._known.get((topic, serializer, large))
        if known is not None:
            return known
        keyring, opening = self._codec.keyring, open_header(PZC01, self._sender, topic)
        signer = None if keyring is None else keyring.publishing
        suite = self._codec.suite or (_GMAC if large else _HMAC)
        sealer = signing.sealer(signer, suite, Kind.NOTIFICATION, self._sender, "", self._epoch)
        stamped = signer is not None and suite is not _HMAC
        tags = None
        if signer is not None and not (stamped or large) and len(signer.hmac_key) <= BLOCK:
            tags = Tags(signer)
        roomy = len(opening) + _DIGITS <= MAX_HEADER
        shared = _Shared(opening, roomy, serializer.encode(), tags, sealer, stamped, sealer.mark)
        self._known.keep((topic, serializer, large), shared)
        return shared


def size_beside(topic: str, key: str) -> int:
    """Bytes of a record's frames beside its content, at most; of a topic or key that is not ASCII, about."""
    return BESIDE + len(topic) + 3 * len(key)


# --- the reader's side -------------------------------------------------------------------------------------


class Opener:
    """Makes the five frames of rows that came from one agent in one epoch, over a link that was verified.

    Args:
        sender: agent id of the publisher.
        epoch: of the publisher.
        key_id: of the key that signed the messages of the link; empty when none did.
    """

    def __init__(self, sender: str, epoch: int, key_id: str) -> None:
        self._opening = partial(open_header, PZC01, sender)
        self._openings: Memo[Hashable, bytes] = Memo()
        self._epoch = b"%08x" % epoch
        self._key_id = key_id.encode()
        self._time = -1, b""

    def frames(self, topic: str, row: Row) -> Frames:
        """The five frames of a row, as the publisher signed them; the signature is not verified.

        Raises:
            RemoteProtocolError: when id or signature are not of this sender, epoch, time and key.
        """
        msgid, signature = row.msgid, row.signature
        ms, prefix = self._time
        if row.sent_ms != ms:
            prefix = _prefix(row.sent_ms)
            self._time = row.sent_ms, prefix
        if not (len(msgid) == _MSGID_SIZE and msgid.startswith(prefix) and msgid.endswith(self._epoch)):
            raise RemoteProtocolError(
                f"message {row.number} of {topic[:80]!r} came with the id of another: {msgid[:60]!r}"
            )
        if not self._proves(signature):
            raise RemoteProtocolError(
                f"message {row.number} of {topic[:80]!r} came with the signature of another key"
            )
        return self._header(topic, row), row.serializer.encode(), row.body, msgid, signature

    def headers(self, topics: Sequence[str], rows: Sequence[Row]) -> list[bytes] | None:
        """Frame 0 of each of many rows of these topics; None when `frames` has to judge them one by one."""
        if not self._prove(rows):
            return None
        return [self._header(topic, row) for topic, row in zip(topics, rows, strict=True)]

    def _header(self, topic: str, row: Row) -> bytes:
        opening = self._openings.get(topic)
        if opening is None:
            opening = self._opening(topic)
            self._openings.keep(topic, opening)
        return close_header(opening, row.number, row.key) if row.key else b"%b%d+" % (opening, row.number)

    def _prove(self, rows: Sequence[Row]) -> bool:
        ends = {(each.msgid[_MSGID_SIZE - 8 :], each.signature[-KEY_ID_SIZE:]) for each in rows}
        times = {(each.sent_ms, each.msgid[:_PREFIX_SIZE]) for each in rows}
        proofs = {(each.signature[:1], len(each.signature)) for each in rows}
        return (
            ends <= {(self._epoch, self._key_id or b"\0")}
            and all(prefix == _prefix(sent_ms) for sent_ms, prefix in times)
            and all(
                self._proves(suite.ljust(size - len(self._key_id), b"\0") + self._key_id)
                for suite, size in proofs
            )
        )

    def _proves(self, signature: bytes) -> bool:
        if not self._key_id:
            return signature == b"\0"
        suite = signature[0] if signature else 0
        return 0 < suite < len(TAG_SIZE) and signature[1 + TAG_SIZE[suite] :] == self._key_id


def _prefix(sent_ms: int) -> bytes:
    """How the id of a message of that time begins."""
    return b"urn:uuid:%08x-%04x-8" % (sent_ms >> 16, sent_ms & 0xFFFF)
