"""What a row may hold; beyond it, it ends in quarantine with the reason, and costs the others nothing.

A content is weighed before it is decoded, what was decoded before it is written as text, and what the
calendars and folders of the tables have to take afterwards. Numbers are in `protocol.limits`.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from ...protocol import limits
from ...protocol.errors import DecodeError
from ..arrow import pa, pc
from ..schema import LAST_TIME

_STORED_NESTING = 64
"""Containers inside each other in a content that a pipeline stores."""

_STORED_NAME = 4096
"""Bytes of the name that a recorder knew an agent by."""


def check_content(size: int) -> None:
    """Refuse a content of too many bytes.

    Raises:
        DecodeError: says how many are allowed.
    """
    most = limits.current.stored_content
    if size > most:
        raise DecodeError(f"a content of {size} bytes is not decoded; at most {most} are (stored_content)")


def check_elements(count: int) -> None:
    """Refuse a container of too many elements.

    Raises:
        DecodeError: says how many are allowed.
    """
    if count > (most := limits.current.stored_elements):
        raise DecodeError(f"more than {most} elements")


def check_plain(content: object) -> None:
    """Refuse plain data that is nested too deeply, has too many elements, or too much text.

    What is shared counts wherever it stands, as its text would repeat it.

    Raises:
        DecodeError: says what is allowed.
    """
    bounds = limits.current
    room, text = bounds.stored_elements, bounds.stored_text
    layer, depth = [content], 0
    while layer:
        below: list[object] = []
        held = False
        for item in layer:
            parts = _parts(item)
            if parts is None:
                text -= len(cast("str", item)) if isinstance(item, str | bytes | bytearray) else 0
                continue
            held = True
            for some in parts:
                room -= len(some)
                check_elements(bounds.stored_elements - room)
                below.extend(some)
        if text < 0:
            raise DecodeError(f"more than {bounds.stored_text} characters of text in containers")
        depth += held
        if depth > _STORED_NESTING:
            raise DecodeError(f"more than {_STORED_NESTING} containers inside each other")
        layer = below


def _parts(item: object) -> tuple[list[object], ...] | None:
    if isinstance(item, dict):
        table = cast("dict[object, object]", item)
        return [*table], [*table.values()]
    if isinstance(item, list | tuple | set | frozenset):
        return ([*cast("list[object]", item)],)
    return ([*item.args],) if isinstance(item, BaseException) else None


def check_text(text: str) -> None:
    """Refuse a JSON text that is too long; error as `check_content`."""
    if len(text) > (most := limits.current.stored_text):
        raise DecodeError(f"its JSON text has {len(text)} characters; at most {most} are stored")


def beyond(decoded: pa.RecordBatch) -> dict[int, str]:
    """Rows of `schema.DECODED` without an error that the tables cannot take, and why."""
    sent = decoded.column("sent_at").cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    sizes = pc.binary_length(decoded.column("name")).fill_null(0).to_numpy(zero_copy_only=False)
    most = _STORED_NAME
    found = {
        int(row): "sent behind the year 9999, as its message id says"
        for row in np.flatnonzero(sent > LAST_TIME)
    }
    found |= {
        int(row): f"a name of {sizes[row]} bytes; at most {most} are stored"
        for row in np.flatnonzero(sizes > most)
    }
    return {row: why for row, why in found.items() if not decoded.column("error")[row].is_valid}
