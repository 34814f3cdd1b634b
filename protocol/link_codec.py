"""Link codec: the bytes of link messages."""

from __future__ import annotations

import msgspec

from .errors import DecodeError, SerializeError
from .link_messages import (
    Applied,
    Close,
    Closed,
    Interests,
    Lasts,
    LinkMessage,
    Notify,
    Open,
    Opened,
    Report,
)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[LinkMessage] = msgspec.msgpack.Decoder(
    Open | Opened | Interests | Applied | Report | Notify | Close | Closed | Lasts
)


def encode(message: object) -> bytes:
    """The bytes of a message; every body is copied once.

    Raises:
        SerializeError: for what is none, or a text or body that has no bytes.
    """
    if not isinstance(message, LinkMessage):
        raise SerializeError(f"only a LinkMessage can be encoded as one, not a {type(message).__name__}")
    try:
        return _ENCODER.encode(message)
    except Exception as error:  # of whatever stands in the fields
        raise SerializeError(f"the message cannot be encoded: {type(error).__name__}: {error}") from error


def decode(data: bytes | bytearray | memoryview) -> LinkMessage:
    """The message in ``data``.

    Raises:
        DecodeError: for anything else than sane types, numbers and lengths.
    """
    try:
        message = _DECODER.decode(data)
    except Exception as error:  # msgspec lets those of Unicode and of recursion through
        reason = f"{len(data)} bytes cannot be decoded: {type(error).__name__}: {str(error)[:200]}"
        raise DecodeError(f"a link message of {reason}") from None
    runs = message.runs if isinstance(message, Notify) else ()
    for run in message.retained if isinstance(message, Applied) else runs:
        for row in run.rows:
            if (row.block or row.size) and (not row.block or len(row.body)):
                raise DecodeError(f"row {row.number} of {run.topic[:80]!r} has no content, or two")
    return message
