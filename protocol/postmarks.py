"""Postmarks: letters made and read, by what all letters of one agent and epoch have in common.

Making one is what broadcasting does, with everything prepared that does not change from one notification of a
topic to the next; reading one makes its five frames, and verifies no signature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

from . import ids, signing
from .batch import Prepared
from .bundle import Body, Item
from .codec import Codec
from .correspondence import Kept
from .errors import ProtocolError, RemoteProtocolError
from .frames import PZC01, Kind, close_header, open_header
from .ids import Stamp
from .letters import Letter
from .signing import BLOCK, KEY_ID_SIZE, LARGE, Parties, Sealer, Suite

_HMAC, _GMAC = Suite.HMAC_SHA256, Suite.AES256_GMAC
_TAGS = {int(Suite.HMAC_SHA256): 32, int(Suite.AES256_GMAC): 16, int(Suite.AES256_GCM): 16}
_MSGID_SIZE = 45
_PREFIX_SIZE = 24
_ANY_STAMP = Stamp(0, 0, 0)

Frames = tuple[bytes, bytes, Body, bytes, bytes]
"""Header, serializer, content, message id, signature."""


class _Series(NamedTuple):
    opening: bytes
    serializer: bytes
    sealer: Sealer
    stamped: bool
    prepared: Prepared | None
    parties: Parties


class Postmark:
    """Makes letters of what one agent has published in one epoch, with all that is constant prepared.

    Args:
        codec: whose key and suite count, as for what it broadcasts.
        sender: agent id.
        epoch: of the sender.
        urn: gives a fresh message id of that epoch for a time in Unix milliseconds.
    """

    def __init__(self, codec: Codec, sender: str, epoch: int, urn: Callable[[int], str]) -> None:
        self._codec = codec
        self._sender = sender
        self._epoch = epoch
        self._urn = urn
        self._known: Kept[_Series] = Kept()

    def letter(self, item: Item) -> Letter:
        """The letter of an item; without id and signature when its topic or key fits into no header."""
        topic, number, key, sent_ms, body = item.topic, item.number, item.key, item.sent_ms, item.body
        size = len(body)
        large = size > LARGE
        try:
            series = self._known.get((topic, item.serializer, large)) or self._meet(item, large)
            opening, name, sealer, stamped, prepared, parties = series
            header = close_header(opening, number, key) if key else b"%b%d+" % (opening, number)
            urn = self._urn(sent_ms)
            msgid, content = urn.encode(), body
            if prepared is not None:
                tag = prepared.digest(signing.covered(parties, header, name, msgid, size, body))
            else:
                stamp = ids.parse_urn(urn) if stamped else _ANY_STAMP
                tag, content = sealer.seal(stamp, header, name, msgid, body)
        except ProtocolError:
            return Letter(topic, number, key, sent_ms, 0, item.serializer, body)
        return Letter(
            topic, number, key, sent_ms, 0, item.serializer, content, 0, 0, msgid, tag.join(sealer.mark)
        )  # fmt: skip

    def _meet(self, item: Item, large: bool) -> _Series:
        keyring = self._codec.keyring
        signer = None if keyring is None else keyring.publishing
        suite = self._codec.suite or (_GMAC if large else _HMAC)
        sealer = signing.sealer(signer, suite, Kind.NOTIFICATION, self._sender, "", self._epoch)
        stamped = signer is not None and suite is not _HMAC
        prepared = None
        if signer is not None and not (stamped or large) and len(signer.hmac_key) <= BLOCK:
            prepared = Prepared(signer.hmac_key)
        series = _Series(
            open_header(PZC01, self._sender, item.topic), item.serializer.encode(), sealer, stamped, prepared,
            signing.parties(Kind.NOTIFICATION, suite, "" if signer is None else signer.key_id, ""),
        )  # fmt: skip
        self._known.keep((item.topic, item.serializer, large), series)
        return series


# --- the reader's side -------------------------------------------------------------------------------------


class Opener:
    """Makes the five frames of letters that came from one agent in one epoch, over a line that was verified.

    Args:
        sender: agent id of the publisher.
        epoch: of the publisher.
        key_id: of the key that signed the line; empty when none did.
    """

    def __init__(self, sender: str, epoch: int, key_id: str) -> None:
        self._opening = partial(open_header, PZC01, sender)
        self._openings: Kept[bytes] = Kept()
        self._epoch = b"%08x" % epoch
        self._key_id = key_id.encode()
        self._time = -1, b""

    def frames(self, letter: Item) -> Frames:
        """The five frames, as the publisher signed them; the signature is not verified.

        Raises:
            RemoteProtocolError: when id or signature are not of this sender, epoch, time and key.
        """
        if type(letter) is not Letter:
            raise RemoteProtocolError(f"message {letter.number} of {letter.topic[:80]!r} came without frames")
        topic, msgid, signature = letter.topic, letter.msgid, letter.signature
        ms, prefix = self._time
        if letter.sent_ms != ms:
            prefix = _prefix(letter.sent_ms)
            self._time = letter.sent_ms, prefix
        if not (len(msgid) == _MSGID_SIZE and msgid.startswith(prefix) and msgid.endswith(self._epoch)):
            raise RemoteProtocolError(
                f"message {letter.number} of {topic[:80]!r} came with the id of another: {msgid[:60]!r}"
            )
        if not self._proves(signature):
            raise RemoteProtocolError(
                f"message {letter.number} of {topic[:80]!r} came with the signature of another key"
            )
        opening = self._open(topic)
        key = letter.key
        header = close_header(opening, letter.number, key) if key else b"%b%d+" % (opening, letter.number)
        return header, letter.serializer.encode(), letter.body, msgid, signature

    def headers(self, letters: Sequence[Item]) -> list[bytes] | None:
        """Frame 0 of each of many; None when `frames` has to judge them one by one."""
        if {type(each) for each in letters} != {Letter}:
            return None
        if not self._prove(cast("Sequence[Letter]", letters)):
            return None
        openings = {topic: self._open(topic) for topic in {each.topic for each in letters}}
        if any(each.key for each in letters):
            return [close_header(openings[each.topic], each.number, each.key) for each in letters]
        return [b"%b%d+" % (openings[each.topic], each.number) for each in letters]

    def _prove(self, letters: Sequence[Letter]) -> bool:
        ends = {(each.msgid[_MSGID_SIZE - 8 :], each.signature[-KEY_ID_SIZE:]) for each in letters}
        times = {(each.sent_ms, each.msgid[:_PREFIX_SIZE]) for each in letters}
        proofs = {(each.signature[:1], len(each.signature)) for each in letters}
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
        tag = _TAGS.get(signature[0]) if signature else None
        return tag is not None and signature[1 + tag :] == self._key_id

    def _open(self, topic: str) -> bytes:
        opening = self._openings.get(topic)
        if opening is None:
            opening = self._opening(topic)
            self._openings.keep(topic, opening)
        return opening


def _prefix(sent_ms: int) -> bytes:
    """How the id of a message of that time begins."""
    return b"urn:uuid:%08x-%04x-8" % (sent_ms >> 16, sent_ms & 0xFFFF)
