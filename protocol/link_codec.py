"""Link codec: the bytes of link messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec.structs import astuple

from .errors import DecodeError, SerializeError
from .link_messages import (
    MAX_ITEMS,
    Applied,
    Close,
    Closed,
    Content,
    Interests,
    Lasts,
    LinkMessage,
    Most,
    Notify,
    Open,
    Opened,
    Report,
    Row,
    Run,
)

COPIED = 1 << 18
"""Bodies up to this many bytes are copies of their own; larger ones are views of the received message."""

_COPIED_ROW = 1 << 14
"""Bytes of a row, on average, up to which all bodies are copied: quicker than to look at each."""

_HEAD = 4096  # bytes in which the number of rows of the first run stands, unless its topic is very long
_NUMBERS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD9: 1, 0xDA: 2, 0xDC: 2}


class _ViewedRow(Row, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    body: Annotated[memoryview, Content]


class _ViewedRun(Run, array_like=True, frozen=True, forbid_unknown_fields=True):
    rows: Annotated[list[_ViewedRow], Most]  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedApplied(Applied, tag=4, frozen=True):
    retained: Annotated[list[_ViewedRun], Most] = msgspec.field(default_factory=list)  # pyright: ignore[reportIncompatibleVariableOverride]


class _ViewedNotify(Notify, tag=6, frozen=True):
    runs: Annotated[list[_ViewedRun], Most] = msgspec.field(default_factory=list)  # pyright: ignore[reportIncompatibleVariableOverride]


_ENCODER = msgspec.msgpack.Encoder()
_COPYING: msgspec.msgpack.Decoder[LinkMessage] = msgspec.msgpack.Decoder(
    Open | Opened | Interests | Applied | Report | Notify | Close | Closed | Lasts
)
_VIEWING: msgspec.msgpack.Decoder[LinkMessage] = msgspec.msgpack.Decoder(
    Interests | _ViewedApplied | _ViewedNotify | Lasts
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
    """The message in ``data``; of large ones, bodies over `COPIED` bytes are views of it.

    Raises:
        DecodeError: for anything else than sane types, numbers and lengths.
    """
    try:
        if len(data) <= COPIED or len(data) <= _COPIED_ROW * _rows(bytes(data[:_HEAD])):
            message = _COPYING.decode(data)
        else:
            message = _settled(_VIEWING.decode(memoryview(data).cast("B").toreadonly()))
    except Exception as error:  # msgspec lets those of Unicode and of recursion through
        reason = f"{len(data)} bytes cannot be decoded: {type(error).__name__}: {str(error)[:200]}"
        raise DecodeError(f"a link message of {reason}") from None
    alike = False
    runs = message.runs if isinstance(message, Notify) else ()
    for run in message.retained if isinstance(message, Applied) else runs:
        alike = alike or bool(run.like)
        for row in run.rows:
            if (row.block or row.size) and (not row.block or len(row.body)):
                raise DecodeError(f"row {row.number} of {run.topic[:80]!r} has no content, or two")
    return _completed(message) if alike and isinstance(message, Notify) else message


def _rows(head: bytes) -> int:
    """How many rows the first run of a `Notify` has that begins so; 0 for anything unusual."""
    try:
        _, at = _read(head, 2)  # behind the kind: the first position
        runs, at = _read(head, at)
        topic, at = _read(head, at + 1)
        interests, at = _read(head, at + topic)
        for _ in range(interests):
            _, at = _read(head, at)
        return _read(head, at)[0] if runs and head[1] == Notify.__struct_config__.tag else 0
    except IndexError:
        return 0


def _read(head: bytes, at: int) -> tuple[int, int]:
    """The number, or the length of the text or array, that begins there, and where its own bytes end."""
    first = head[at]
    size = _NUMBERS.get(first, 0)
    if size:
        return int.from_bytes(head[at + 1 : at + 1 + size]), at + 1 + size
    return first & (0x1F if first >= 0xA0 else 0x0F if first >= 0x80 else 0x7F), at + 1


def _completed(notify: Notify) -> Notify:
    """With the rows of runs that are like others."""
    runs, more = notify.runs, 0
    for index, run in enumerate(runs):
        if not run.like:
            continue
        if run.rows or run.like > index or runs[run.like - 1].like or runs[run.like - 1].topic != run.topic:
            raise DecodeError(f"run {index + 1} of {run.topic[:80]!r} is like none before")
        rows = runs[run.like - 1].rows
        more += len(rows)
        if more > MAX_ITEMS:  # a few bytes would stand for a hundred million of them
            raise DecodeError(f"over {MAX_ITEMS} rows are like others")
        if any(row.block for row in rows):
            raise DecodeError(f"run {index + 1} of {run.topic[:80]!r} is like one in blocks")
        runs[index] = Run(run.topic, run.interests, rows, run.like)
    return notify


def _settled(message: LinkMessage) -> LinkMessage:
    if isinstance(message, _ViewedApplied):
        return Applied(message.number, message.confirmed, _runs(message.retained), message.about)
    if isinstance(message, _ViewedNotify):
        return Notify(message.first, _runs(message.runs), *astuple(message)[2:])
    return message


def _runs(viewed: Sequence[Run]) -> list[Run]:
    return [Run(run.topic, run.interests, [_row(row) for row in run.rows], run.like) for run in viewed]


def _row(viewed: Row) -> Row:
    fields: list[Any] = list(astuple(viewed))
    if len(viewed.body) <= COPIED:  # a small view would keep the whole message
        fields[Row.__struct_fields__.index("body")] = bytes(viewed.body)
    return Row(*fields)
