"""Proofs: message ids and signatures of notifications, made for many at once.

What proves one is kept apart from what it goes in: `records` has the frames.
"""

from __future__ import annotations

import hashlib

from . import ids as message_ids
from . import signing
from .errors import ProtocolError
from .frames import Buffer, Kind
from .ids import MessageIds, Stamp
from .keyring import Key
from .link_messages import Body
from .signing import Sealer, Suite, hmac_pads

_HMAC = Suite.HMAC_SHA256
_ANY_STAMP = Stamp(0, 0, 0)

Proof = tuple[Body, bytes, bytes]
"""Content, as it goes; signature, message id."""


class Tags:
    """HMAC-SHA256 tags of notifications under one key, whose two blocks are hashed once.

    What says the lengths of a notification is kept for the next one. Safe from any thread.

    Args:
        key: whose HMAC key counts.
    """

    def __init__(self, key: Key) -> None:
        self._inner, self._outer = map(hashlib.sha256, hmac_pads(key.hmac_key))
        self._parties = signing.parties(Kind.NOTIFICATION, _HMAC, key.key_id, "")
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


class TagProver:
    """Message ids and HMAC-SHA256 signatures of what one agent publishes in one epoch; any thread.

    Args:
        key: whose HMAC key counts.
        ids: gives message ids.
    """

    def __init__(self, key: Key, ids: MessageIds) -> None:
        self._tag = Tags(key).of
        self._front, self._behind = bytes((_HMAC,)), key.key_id.encode()
        self._next_urn = ids.next_urn_frame

    def of(
        self, serializer: bytes, headers: list[bytes], times: list[int], contents: list[Body], /
    ) -> list[Proof | None]:
        """Of contents with these headers and times in Unix milliseconds; None where that cannot be."""
        proofs: list[Proof | None] = []
        for header, sent_ms, content in zip(headers, times, contents, strict=True):
            try:
                msgid = self._next_urn(sent_ms)
            except ProtocolError:
                proofs.append(None)
                continue
            tag = self._tag(header, serializer, msgid, content)
            proofs.append((content, b"%b%b%b" % (self._front, tag, self._behind), msgid))
        return proofs


class SealerProver:
    """As `TagProver`, in any other suite, or in none.

    Args:
        sealer: of the suite.
        stamped: it needs the stamp in the message id.
        ids: gives message ids.
    """

    def __init__(self, sealer: Sealer, stamped: bool, ids: MessageIds) -> None:
        self._sealer = sealer
        self._stamped = stamped
        self._next_urn = ids.next_urn_frame

    def of(
        self, serializer: bytes, headers: list[bytes], times: list[int], contents: list[Body], /
    ) -> list[Proof | None]:
        """See `TagProver.of`."""
        sealer, proofs = self._sealer, list[Proof | None]()
        for header, sent_ms, content in zip(headers, times, contents, strict=True):
            try:
                msgid = self._next_urn(sent_ms)
                stamp = message_ids.parse_urn(msgid.decode()) if self._stamped else _ANY_STAMP
                tag, body = sealer.seal(stamp, header, serializer, msgid, content)
                proofs.append((body, tag.join(sealer.mark), msgid))
            except ProtocolError:
                proofs.append(None)
        return proofs
