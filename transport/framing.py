"""Framing: how a message of five frames lies in a Unix stream socket.

Integers little-endian::

    offset  size       content
    0       1          version, 1
    1       1          flags: 0, or 8: a descriptor comes with this message
    2       2          length of frame 0, the header
    4       1          length of frame 1, the serializer
    5       1          length of frame 3, the message id
    6       2          length of frame 4, the signature
    8       4          length of frame 2, the content
    12      8          0
    20      ...        frames 0, 1, 3, 4, one after the other
    ...     0 or more  frame 2

What a descriptor is of the content says; a link hands over the blocks of its notifications so (see `.pipe`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ..protocol.errors import FrameError, LocalProtocolError, RemoteProtocolError
from ..protocol.frames import (
    MAX_CONTENT,
    MAX_HEADER,
    MAX_MSGID,
    MAX_SERIALIZER,
    MAX_SIGNATURE,
    Buffer,
    check_frames,
)

INLINE = 1 << 16
"""Contents up to this many bytes are sent in one piece with the other frames."""

HEAD = struct.Struct("<HHBBHIQ")  # version together with flags: fewer to look at
PLAIN, CARRYING = 0x0001, 0x0801
_unpack = HEAD.unpack_from


def compose(frames: Sequence[Buffer], kind: int = PLAIN) -> list[Buffer]:
    """A message with its content inline: one piece, or two when the content is large, which is not copied.

    Raises:
        LocalProtocolError: for anything but five frames of sane sizes.
    """
    if len(frames) == 5:
        header, serializer, content, msgid, signature = frames
        a, b, e, c, d = map(len, frames)
        if (
            e <= INLINE
            and a <= MAX_HEADER
            and b <= MAX_SERIALIZER
            and c <= MAX_MSGID
            and d <= MAX_SIGNATURE
            and type(content) is bytes
        ):
            return [
                b"".join((HEAD.pack(kind, a, b, c, d, e, 0), header, serializer, msgid, signature, content))
            ]
    try:
        parts = [frame.cast("B") if isinstance(frame, memoryview) else frame for frame in frames]
        check_frames(parts)
    except (FrameError, TypeError) as exc:
        raise LocalProtocolError(f"the message cannot be sent: {exc}") from None
    content = parts.pop(2)
    front = b"".join((HEAD.pack(kind, *map(len, parts), len(content), 0), *parts))
    return [front + content] if len(content) <= INLINE else [front, content]


def check_head(kind: int, sizes: tuple[int, int, int, int, int], extra: int) -> None:
    """Refuse a head of another version, or of impossible flags and lengths.

    Raises:
        RemoteProtocolError: saying which.
    """
    if kind not in (PLAIN, CARRYING):
        raise RemoteProtocolError(
            f"a message of version {kind & 0xFF} with flags {kind >> 8:#x}; this side speaks version 1"
        )
    limits = (MAX_HEADER, MAX_SERIALIZER, MAX_MSGID, MAX_SIGNATURE, MAX_CONTENT)
    if extra or any(size > limit for size, limit in zip(sizes, limits, strict=True)):
        raise RemoteProtocolError(f"a message of impossible lengths: frames {sizes}, {extra} behind them")
