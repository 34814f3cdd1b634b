"""Broadcast: frames of the notifications of one topic, with all prepared that does not change between them.

They are what `Codec.encode` makes. What would be made in another way there has no such short cut: other
suites than HMAC-SHA256, keys of notifications, and contents of more than 64 KiB.
"""

from __future__ import annotations

from collections.abc import Callable

from . import serializers, signing
from .batch import Tags
from .codec import Codec
from .frames import MAX_HEADER, PZC01, Buffer, Kind, open_header
from .signing import BLOCK, LARGE, Suite

_DIGITS = 20
"""Room for a number and a ``+`` behind the opening of a header."""


class Broadcast:
    """Makes frames of one topic of one agent.

    Args:
        codec: whose serializer, key and suite count; see `is_usual`.
        sender: agent id.
        topic: neither empty nor reserved.
        urn: gives a fresh message id.

    Raises:
        LocalProtocolError: for a topic that no header can carry.
    """

    __slots__ = ("_mark", "_name", "_opening", "_serializer", "_tags", "_urn")

    def __init__(self, codec: Codec, sender: str, topic: str, urn: Callable[[], str]) -> None:
        signer = None if codec.keyring is None else codec.keyring.publishing
        self._opening = open_header(PZC01, sender, topic)
        self._name = codec.serializer
        self._serializer = self._name.encode()
        self._tags = None if signer is None else Tags(signer)
        self._mark = signing.sealer(signer, Suite.HMAC_SHA256, Kind.NOTIFICATION, sender, "", 0).mark
        self._urn = urn

    def encode(self, content: object) -> Buffer | None:
        """The bytes of a content; None when it is too large for here.

        Raises:
            SerializeError: when the serializer cannot express it.
        """
        body = serializers.encode(self._name, content)
        return body if len(body) <= LARGE else None

    def frames(self, number: int, body: Buffer) -> list[Buffer]:
        """Five frames.

        Args:
            number: of the notification in its topic, from 1.
            body: from `encode`.
        """
        header, serializer, msgid = b"%b%d+" % (self._opening, number), self._serializer, self._urn().encode()
        tag = b"" if self._tags is None else self._tags.of(header, serializer, msgid, body)
        return [header, serializer, body, msgid, tag.join(self._mark)]


def is_usual(codec: Codec, sender: str, topic: str) -> bool:
    """Whether `Codec.encode` would make small notifications of a topic as `Broadcast` does."""
    signer = None if codec.keyring is None else codec.keyring.publishing
    if signer is not None and (codec.suite or Suite.HMAC_SHA256) is not Suite.HMAC_SHA256:
        return False
    fits = len(open_header(PZC01, sender, topic)) + _DIGITS <= MAX_HEADER
    return fits and (signer is None or len(signer.hmac_key) <= BLOCK)
