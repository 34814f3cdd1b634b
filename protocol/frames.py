"""The five frames and the two header layouts, as bytes.

::

    frame        PZC00 (original Pizco)           PZC01
    0 header     PZC00+<sender>+<topic>           PZC01+<agent id>+<topic>+<sequence>+<key>
    1 serializer pickle | pickleN | json          also msgpack | buffers
    2 content    bytes                            bytes
    3 message id urn:uuid:...                     urn:uuid:... (UUIDv8, see ids.py)
    4 signature  HMAC-SHA1 or empty               suite byte, tag, key id (see signing.py)

A PZC01 header says by itself what the message is: a *reply* carries its own 32 hex digits in
the sequence field (frame 3 echoes the request's id), a *request* has no topic, everything else
is a *notification* whose sequence is a decimal number. The ``+`` behind the topic makes a
subscription to one exact topic possible. The key of a notification is mostly empty, and percent
coded. A topic may contain ``+`` in both dialects; a sender may not.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

from .errors import FrameError, LocalProtocolError, VersionError
from .ids import Stamp, parse_hex

PZC00 = "PZC00"
PZC01 = "PZC01"
DIALECTS = (PZC01, PZC00)

MAX_HEADER = 2048
MAX_SERIALIZER = 32
MAX_MSGID = 128
MAX_SIGNATURE = 512
MAX_CONTENT = 1 << 30

Buffer = bytes | bytearray | memoryview

MAX_SEQUENCE = 10**18 - 1

OWN_ID_SIZE = 32
"""Digits of a reply's own id, and of no sequence."""

_is_sequence = re.compile(rb"0|[1-9][0-9]{0,17}").fullmatch
_NAMES = ("header", "serializer", "content", "message id", "signature")


class Kind(enum.IntEnum):
    """What a message is for; authenticated, so that no kind can pass for another."""

    REQUEST = 1
    REPLY = 2
    NOTIFICATION = 3


class Header(NamedTuple):
    """A parsed header.

    ``sequence`` is the topic's number of a notification; ``key`` what the notification is about,
    mostly empty. ``kind`` is None for PZC00, whose header does not tell; ``own`` a reply's own id.
    """

    dialect: str
    sender: str
    topic: str
    sequence: int
    key: str
    kind: Kind | None
    own: Stamp | None = None


def check_frames(frames: Sequence[Buffer], max_content: int = MAX_CONTENT) -> None:
    """Refuse anything but five frames of sane sizes.

    Raises:
        FrameError: naming the frame, its size and the limit in bytes.
    """
    if len(frames) != 5:
        raise FrameError(f"wrong number of frames: expected 5, received {len(frames)}")
    header, serializer, content, msgid, signature = frames
    if (
        len(header) > MAX_HEADER
        or len(serializer) > MAX_SERIALIZER
        or len(content) > max_content
        or len(msgid) > MAX_MSGID
        or len(signature) > MAX_SIGNATURE
    ):
        raise _too_large(frames, (MAX_HEADER, MAX_SERIALIZER, max_content, MAX_MSGID, MAX_SIGNATURE))


def _too_large(frames: Sequence[Buffer], limits: tuple[int, ...]) -> FrameError:
    name, size, limit = next(
        (name, len(frame), limit)
        for name, frame, limit in zip(_NAMES, frames, limits, strict=True)
        if len(frame) > limit
    )
    return FrameError(f"{name} frame has {size} bytes, the limit is {limit}")


def text(name: str, frame: Buffer) -> str:
    """Decode a text frame.

    Raises:
        FrameError: when the bytes are not UTF-8.
    """
    try:
        return str(frame, "utf-8")
    except UnicodeDecodeError as exc:
        raise FrameError(f"{name} frame is not UTF-8: {exc.reason} at byte {exc.start}") from None


def format_header(dialect: str, sender: str, topic: str, sequence: int | str = 0, key: str = "") -> bytes:
    """Frame 0; ``sequence`` (number, or a reply's own id) and ``key`` are written by PZC01 only.

    Raises:
        LocalProtocolError: for a sender with ``+``, a sequence that is negative or over 18 digits, or
            a header over 2048 bytes.
    """
    header = open_header(dialect, sender, topic)
    return header if dialect == PZC00 else close_header(header, sequence, key)


def close_header(opening: bytes, sequence: int | str, key: str) -> bytes:
    """Complete the opening of a PZC01 header; arguments and errors as `format_header`."""
    if isinstance(sequence, int) and not 0 <= sequence <= MAX_SEQUENCE:
        raise LocalProtocolError(f"sequence {sequence} is not between 0 and {MAX_SEQUENCE}")
    header = opening + f"{sequence}+{quoted(key) if key else ''}".encode()
    if len(header) > MAX_HEADER:
        raise _too_long(header)
    return header


def open_header(dialect: str, sender: str, topic: str) -> bytes:
    """All of a header that messages of one sender and topic share; errors as `format_header`."""
    if "+" in sender:
        raise LocalProtocolError(f"a sender may not contain '+': {sender!r}")
    try:
        opening = (f"{PZC00}+{sender}+{topic}" if dialect == PZC00 else f"{PZC01}+{sender}+{topic}+").encode()
    except UnicodeEncodeError as exc:
        raise _not_utf8(exc) from None
    if len(opening) > MAX_HEADER:
        raise _too_long(opening)
    return opening


def format_msgid(msgid: str) -> bytes:
    """Frame 3.

    Raises:
        LocalProtocolError: when UTF-8 cannot hold it.
    """
    try:
        return msgid.encode()
    except UnicodeEncodeError as exc:
        raise LocalProtocolError(f"message id cannot be written as UTF-8: {exc.reason}") from None


def quoted(key: str) -> str:
    """A key as it stands in a header; LocalProtocolError for half of a surrogate pair."""
    try:
        return quote(key, safe="")
    except UnicodeEncodeError as exc:
        raise _not_utf8(exc) from None


def _not_utf8(error: UnicodeEncodeError) -> LocalProtocolError:
    return LocalProtocolError(f"sender, topic or key cannot be written as UTF-8: {error.reason}")


def _too_long(header: bytes) -> LocalProtocolError:
    return LocalProtocolError(
        f"header has {len(header)} bytes, the limit is {MAX_HEADER}; shorten the topic or the key"
    )


def topic_filter(dialect: str, sender: str, topic: str) -> bytes:
    """Bytes for a SUB socket: PZC01 up to the topic's closing ``+``, PZC00 the whole header.

    Raises:
        LocalProtocolError: as `format_header`.
    """
    header = format_header(dialect, sender, topic)
    return header if dialect == PZC00 else header.removesuffix(b"0+")


def parse_header(frame: Buffer) -> Header:
    """Split frame 0.

    Raises:
        VersionError: for any other dialect, naming what came and what is spoken here.
        FrameError: for a header of the right dialect and the wrong form.
    """
    raw = bytes(frame)
    if raw.startswith(b"PZC01+"):
        return _parse_01(raw)
    if raw.startswith(b"PZC00+"):
        return _parse_00(text("header", raw))
    raise VersionError(
        f"unknown dialect {raw[:5]!r}: this side speaks {', '.join(DIALECTS)}; "
        "update the side whose version is older"
    )


def _parse_00(header: str) -> Header:
    parts = header.split("+", 2)
    if len(parts) != 3:
        raise FrameError(f"a PZC00 header needs sender and topic, received {header!r}")
    return Header(PZC00, parts[1], parts[2], 0, "", None)


def _parse_01(raw: bytes) -> Header:
    opening, sequence, key = split_01(raw)
    sender, plus, topic = text("header", opening)[6:].partition("+")
    if not plus:
        raise _malformed(raw)
    about = read_key(key)
    if len(sequence) == OWN_ID_SIZE:
        return Header(PZC01, sender, topic, 0, "", Kind.REPLY, parse_hex(text("header", sequence)))
    kind = Kind.NOTIFICATION if topic else Kind.REQUEST
    return Header(PZC01, sender, topic, read_sequence(sequence), about, kind)


def split_01(raw: bytes) -> list[bytes]:
    """Opening, sequence (or a reply's own id of `OWN_ID_SIZE` bytes) and key of a PZC01 header.

    Raises:
        FrameError: for a header of another form.
    """
    parts = raw.rsplit(b"+", 2)
    if len(parts) != 3:
        raise _malformed(raw)
    return parts


def read_sequence(sequence: bytes) -> int:
    """The number in a header.

    Raises:
        FrameError: when it is none, or has over 18 digits.
    """
    if sequence == b"0":
        return 0
    if not _is_sequence(sequence):
        raise FrameError(f"the sequence {sequence!r} is neither a number nor a reply's id")
    return int(sequence)


def read_key(key: bytes) -> str:
    """The key in a header.

    Raises:
        FrameError: when the bytes are not UTF-8.
    """
    return unquote(text("header", key)) if key else ""


def _malformed(header: bytes) -> FrameError:
    return FrameError(f"a PZC01 header needs sender, topic, sequence and a closing '+', received {header!r}")
