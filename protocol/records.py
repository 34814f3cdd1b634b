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

from collections import defaultdict
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from . import signing
from .codec import Codec
from .errors import ProtocolError, RemoteProtocolError
from .frames import MAX_HEADER, PZC01, Kind, close_header, open_header
from .ids import MessageIds
from .link_messages import Body, Row
from .memo import Memo
from .proofs import SealerProver, TagProver
from .signing import KEY_ID_SIZE, LARGE, TAG_SIZE, Suite

_HMAC = Suite.HMAC_SHA256
_MSGID_SIZE = 45
_PREFIX_SIZE = 24
_DIGITS = 20
"""Room for a number and a ``+`` behind the opening of a header."""

_SHORT = 150
"""Characters of a topic and a key together that surely fit into a header, whatever they are."""

Frames = tuple[bytes, bytes, Body, bytes, bytes]
"""Header, serializer, content, message id, signature."""

BESIDE = 224
"""Bytes of a record's frames beside content, topic and key, at most."""


class Record(Struct, eq=False, gc=False):
    """A notification that is sealed when it goes, the same for all that it goes to.

    Attributes:
        topic, number, sent_ms, key, serializer, body: of the notification, as in a `Row`.
        content: frame 2, once it is sealed.
        signature: frame 4, once it is sealed.
        msgid: frame 3; empty as long as it is not sealed.
    """

    topic: str
    number: int
    sent_ms: int
    key: str
    serializer: str
    body: Body
    content: Body = b""
    signature: bytes = b""
    msgid: bytes = b""

    @property
    def row(self) -> Row:
        """Without proof."""
        return Row(self.number, self.sent_ms, self.key, self.serializer, self.body)

    @property
    def proven(self) -> Row:
        """With frames 2 to 4, once it is sealed; what the wire cannot carry has none."""
        if not self.msgid:
            return self.row
        return Row(
            self.number, self.sent_ms, self.key, self.serializer, self.content, 0, 0, self.msgid,
            self.signature,
        )  # fmt: skip

    def frames(self, header: bytes) -> Frames:
        """All five, once it is sealed."""
        return header, self.serializer.encode(), self.content, self.msgid, self.signature


class _Shared(NamedTuple):
    """What the notifications of one topic share, in one serializer, small ones or large ones.

    Attributes:
        opening: of their headers.
        roomy: any number fits behind it.
        serializer: frame 1.
        prover: makes frames 2 to 4.
    """

    opening: bytes
    roomy: bool
    serializer: bytes
    prover: TagProver | SealerProver

    def headers(self, records: Sequence[Record]) -> list[bytes]:
        """Frame 0 of each.

        Raises:
            LocalProtocolError: when one has no room.
        """
        opening = self.opening
        if self.roomy:
            return [
                close_header(opening, each.number, each.key)
                if each.key
                else b"%b%d+" % (opening, each.number)
                for each in records
            ]
        return [close_header(opening, each.number, each.key) for each in records]


class Records:
    """Seals what one agent publishes in one epoch, with all that is constant prepared; any thread.

    Args:
        codec: whose key of notifications and suite count.
        sender: agent id.
        numbers: gives message ids of that epoch.
    """

    def __init__(self, codec: Codec, sender: str, numbers: MessageIds) -> None:
        self._codec = codec
        self._sender = sender
        self._ids = numbers
        self._known: Memo[Hashable, _Shared] = Memo()

    def check(self, topic: str, number: int, key: str, serializer: str) -> None:
        """Judge whether a header can carry a notification.

        Raises:
            LocalProtocolError: when none can.
        """
        if len(topic) + len(key) > _SHORT:
            close_header(self._shared(topic, serializer, False).opening, number, key)

    def seal(self, records: Sequence[Record], lock: AbstractContextManager[object]) -> list[bytes]:
        """Seal what is not sealed yet, what is alike together: ids rise among those only.

        Args:
            records: whatever others do with them meanwhile.
            lock: taken to change them: what two threads made at once is what the first one made.

        Returns:
            The header of each; empty for what the wire cannot carry, which is not sealed.
        """
        groups: defaultdict[tuple[str, str, bool], list[int]] = defaultdict(list)
        for at, record in enumerate(records):
            groups[record.topic, record.serializer, len(record.body) > LARGE].append(at)
        headers = [b""] * len(records)
        for kind, places in groups.items():
            sealed = self._seal(*kind, [records[at] for at in places], lock)
            for at, header in zip(places, sealed, strict=True):
                headers[at] = header
        return headers

    def _seal(
        self, topic: str, serializer: str, large: bool, records: list[Record],
        lock: AbstractContextManager[object],
    ) -> list[bytes]:  # fmt: skip
        try:
            shared = self._shared(topic, serializer, large)
            headers = shared.headers(records)
        except ProtocolError:
            if len(records) == 1:
                return [b""]
            return [each for one in records for each in self._seal(topic, serializer, large, [one], lock)]
        fresh = [(at, each) for at, each in enumerate(records) if not each.msgid]
        proofs = shared.prover.of(
            shared.serializer, [headers[at] for at, _ in fresh], [each.sent_ms for _, each in fresh],
            [each.body for _, each in fresh],
        )  # fmt: skip
        with lock:
            for (at, record), proof in zip(fresh, proofs, strict=True):
                if not record.msgid:
                    if proof is None:
                        headers[at] = b""
                    else:  # the id last: who sees it takes the others
                        record.content, record.signature, record.msgid = proof
        return headers

    def _shared(self, topic: str, serializer: str, large: bool) -> _Shared:
        known = self._known.get((topic, serializer, large))
        if known is not None:
            return known
        keyring, opening, numbers = self._codec.keyring, open_header(PZC01, self._sender, topic), self._ids
        signer = None if keyring is None else keyring.publishing
        suite = self._codec.suite or _HMAC
        if signer is not None and suite is _HMAC and not large:
            prover: TagProver | SealerProver = TagProver(signer, numbers)
        else:
            sealer = signing.sealer(signer, suite, Kind.NOTIFICATION, self._sender, "", numbers.epoch)
            prover = SealerProver(sealer, signer is not None and suite is not _HMAC, numbers)
        roomy = len(opening) + _DIGITS <= MAX_HEADER
        shared = _Shared(opening, roomy, serializer.encode(), prover)
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
        suite = Suite(signature[0]) if signature and signature[0] in TAG_SIZE else Suite.NONE
        return suite > 0 and signature[1 + TAG_SIZE[suite] :] == self._key_id


def _prefix(sent_ms: int) -> bytes:
    """How the id of a message of that time begins."""
    return b"urn:uuid:%08x-%04x-8" % (sent_ms >> 16, sent_ms & 0xFFFF)
