"""Records: the five frames of notifications, sealed once by their publisher, whichever way they go.

They are what `Codec.encode` makes of the same notification, to the last byte. Broadcast sends them as they
are; the rows of a mailbox leave out what both ends can make again::

    frame        in a row
    0 header     made by both ends out of sender, topic, number and key, so it says what the row says
    1 serializer as it is
    2 content    the body; encrypted when the suite does that
    3 message id ``msgid``, of the time of sending and the sender's epoch
    4 signature  ``signature``, which `Opener` does not verify
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial

from msgspec import Struct

from . import signing
from .codec import Codec
from .errors import ProtocolError, RemoteProtocolError
from .frames import PZC01, Kind, close_header, open_header
from .ids import MessageIds
from .link_messages import Body, Row
from .memo import Memo
from .signing import TAG_SIZE, Suite

_MSGID_SIZE = 45

Frames = tuple[bytes, bytes, Body, bytes, bytes]
"""Header, serializer, content, message id, signature."""


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


class Records:
    """Seals what one agent publishes in one epoch; any thread.

    Args:
        codec: whose key of notifications and suite count.
        sender: agent id.
        numbers: gives message ids of that epoch.
    """

    def __init__(self, codec: Codec, sender: str, numbers: MessageIds) -> None:
        signer = None if codec.keyring is None else codec.keyring.publishing
        suite = codec.suite or Suite.HMAC_SHA256
        self._sealer = signing.sealer(signer, suite, Kind.NOTIFICATION, sender, "", numbers.epoch)
        self._opening = partial(open_header, PZC01, sender)
        self._openings: Memo[str, bytes] = Memo()
        self._next_id = numbers.next

    def header(self, topic: str, number: int, key: str) -> bytes:
        """Frame 0 of a notification.

        Raises:
            LocalProtocolError: when it has no room.
        """
        opening = self._openings.get(topic) or self._openings.keep(topic, self._opening(topic))
        return close_header(opening, number, key)

    def seal(self, record: Record, lock: AbstractContextManager[object]) -> bytes:
        """Seal a record that is not sealed yet.

        Args:
            record: whatever others do with it meanwhile.
            lock: taken to change it: what two threads made at once is what the first one made.

        Returns:
            Its header; empty for what the wire cannot carry, which is not sealed.
        """
        try:
            header = self.header(record.topic, record.number, record.key)
            if record.msgid:
                return header
            stamp = self._next_id(record.sent_ms)
            msgid = stamp.urn_frame()
            tag, content = self._sealer.seal(stamp, header, record.serializer.encode(), msgid, record.body)
        except ProtocolError:
            return b""
        with lock:
            if not record.msgid:  # the id last: who sees it takes the others
                record.content, record.signature = content, tag.join(self._sealer.mark)
                record.msgid = msgid
        return header


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
        self._openings: Memo[str, bytes] = Memo()
        self._epoch = b"%08x" % epoch
        self._key_id = key_id.encode()

    def frames(self, topic: str, row: Row) -> Frames:
        """The five frames of a row, as the publisher signed them; the signature is not verified.

        Raises:
            RemoteProtocolError: when id or signature are not of this sender, epoch, time and key.
        """
        msgid, signature = row.msgid, row.signature
        prefix = b"urn:uuid:%08x-%04x-8" % (row.sent_ms >> 16, row.sent_ms & 0xFFFF)
        if not (len(msgid) == _MSGID_SIZE and msgid.startswith(prefix) and msgid.endswith(self._epoch)):
            raise RemoteProtocolError(
                f"message {row.number} of {topic[:80]!r} came with the id of another: {msgid[:60]!r}"
            )
        if not self._proves(signature):
            raise RemoteProtocolError(
                f"message {row.number} of {topic[:80]!r} came with the signature of another key"
            )
        return self.header(topic, row), row.serializer.encode(), row.body, msgid, signature

    def header(self, topic: str, row: Row) -> bytes:
        """Frame 0 of a row."""
        opening = self._openings.get(topic) or self._openings.keep(topic, self._opening(topic))
        return close_header(opening, row.number, row.key)

    def _proves(self, signature: bytes) -> bool:
        if not self._key_id:
            return signature == b"\0"
        suite = Suite(signature[0]) if signature and signature[0] in TAG_SIZE else Suite.NONE
        return suite > 0 and signature[1 + TAG_SIZE[suite] :] == self._key_id
