"""Pickles of plain scalars, which most readings are, by the shortest safe way.

A content that matches the grammar below byte for byte holds nothing that could name, call or build
anything; the interpreter's own unpickler may read it. Everything else goes through the restricted one.
"""

from __future__ import annotations

import pickle
import re
from typing import Any

from ...protocol import serializers
from ...protocol.frames import Buffer

_SCALAR = rb"(?:G.{8}|K.|M..|J.{4}|[N\x88\x89])"
_plain = re.compile(
    rb"\x80[\x02-\x05](?:\x95(.{8}))?(?:%b|%b\x85\x94|%b{2}\x86\x94|%b{3}\x87\x94)\." % ((_SCALAR,) * 4),
    re.DOTALL,
).fullmatch
"""A number, bool or None, or a tuple of up to three of them, with or without the frame of protocol 4."""

_LONGEST = 64
_BEHIND_FRAME = 11


def decode(serializer: str, body: Buffer) -> Any:
    """The content of a notification, as `serializers.decode` gives it for an untrusted one.

    Raises:
        DecodeError, SerializerRefused: as `serializers.decode`.
    """
    if serializer == "pickle" and len(body) <= _LONGEST:
        match = _plain(body)
        if match and (match[1] is None or int.from_bytes(match[1], "little") == len(body) - _BEHIND_FRAME):
            return pickle.loads(body)
    return serializers.decode(serializer, body, trusted=False)
