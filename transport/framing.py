"""Framing: how a message of five frames lies in a Unix stream socket.

Integers little-endian::

    offset  size       content
    0       1          version, 1
    1       1          flags: 1 the content lies in a block, 2 its descriptor comes with this message,
                       4 it was written there by its sender alone, who may have signed its length only;
                       8, alone: a descriptor comes with this message for whoever receives it
    2       2          length of frame 0, the header
    4       1          length of frame 1, the serializer
    5       1          length of frame 3, the message id
    6       2          length of frame 4, the signature
    8       4          length of frame 2, the content
    12      4          id of the block, 0 without flag 1
    16      4          count of notes
    20      ...        frames 0, 1, 3, 4, one after the other
    ...     0 or more  frame 2, unless it lies in a block
    ...     4 each     notes, signed: +id the block is given back, -id the sender let go of its block

Flags 1, 2 and 4 are about contents of calls (see `.stream`). With flag 8 the content is inline and says what
the descriptor is of; a link hands over the blocks of its notifications so (see `.pipe`).
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
"""Contents up to this many bytes go over the socket; a block would cost more than their copy."""

HEAD = struct.Struct("<HHBBHIQ")  # version with flags, and block id with notes: fewer to look at
PLAIN, IN_BLOCK, WITH_FD, PROVED, CARRYING = 0x0001, 0x0101, 0x0301, 0x0400, 0x0801
MAX_NOTES = 16
_unpack = HEAD.unpack_from


def checked(frames: Sequence[Buffer]) -> list[Buffer]:
    """The frames, counted in bytes.

    Raises:
        LocalProtocolError: for anything but five frames of sane sizes.
    """
    try:
        parts = [frame.cast("B") if isinstance(frame, memoryview) else frame for frame in frames]
        check_frames(parts)
    except (FrameError, TypeError) as exc:
        raise LocalProtocolError(f"the message cannot be sent: {exc}") from None
    return parts


def compose(frames: Sequence[Buffer], kind: int = PLAIN) -> list[Buffer]:
    """A message with its content inline: one piece, or two when the content is large, which is not copied.

    Raises:
        LocalProtocolError: as `checked`.
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
    parts = checked(frames)
    content = parts.pop(2)
    front = b"".join((HEAD.pack(kind, *map(len, parts), len(content), 0), *parts))
    return [front + content] if len(content) <= INLINE else [front, content]


def check_head(kind: int, sizes: tuple[int, int, int, int, int], block_id: int, notes: int) -> None:
    """Refuse a head of another version, or of impossible flags and lengths.

    Raises:
        RemoteProtocolError: saying which.
    """
    inline = kind in (PLAIN, CARRYING)
    if not inline and kind & ~PROVED not in (IN_BLOCK, WITH_FD):
        raise RemoteProtocolError(
            f"a message of version {kind & 0xFF} with flags {kind >> 8:#x}; this side speaks version 1"
        )
    limits = (MAX_HEADER, MAX_SERIALIZER, MAX_MSGID, MAX_SIGNATURE, MAX_CONTENT)
    if any(size > limit for size, limit in zip(sizes, limits, strict=True)) or notes > MAX_NOTES:
        raise RemoteProtocolError(f"a message of impossible lengths: frames {sizes}, {notes} notes")
    if inline != (block_id == 0):
        raise RemoteProtocolError(f"block {block_id} does not go with the flags {kind >> 8:#x}")
