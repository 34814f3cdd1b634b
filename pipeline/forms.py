"""The form of what is on the disk: what a newer version of this package has written is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ..protocol.errors import JournalError
from .arrow import pa, pq
from .schema import FORM_KEY, JOURNAL_FORM, segment_recorder, segments

_DIGITS = 9


def check_form(path: Path, form: object, known: int) -> None:
    """Refuse a form that this version does not know.

    Args:
        path: of the file.
        form: as the file tells it.
        known: the newest one that can be read; all from 1 on can.

    Raises:
        JournalError: says what to do.
    """
    if isinstance(form, bool) or not isinstance(form, int) or not 1 <= form <= known:
        raise JournalError(
            f"{path} has form {form!r:.20}, and this version of pzc reads forms up to {known}: "
            "use the version that wrote it, or a newer one"
        )


class _Form(msgspec.Struct):
    form: object = None


def form_of(record: bytes) -> object:
    """The form that a MessagePack record tells; None without one. `msgspec.MsgspecError` for other bytes."""
    return msgspec.msgpack.decode(record, type=_Form).form


def check_segment(path: Path, metadata: Mapping[bytes, bytes] | None) -> None:
    """Refuse a segment of a newer form; error as `check_form`.

    Args:
        path: of the segment.
        metadata: of its schema.
    """
    told = (metadata or {}).get(FORM_KEY, b"1")
    whole = told.isdigit() and len(told) <= _DIGITS
    check_form(path, int(told) if whole else told.decode(errors="replace"), JOURNAL_FORM)


def check_journal(directory: str | Path) -> None:
    """Refuse a journal whose newest segments are of a newer form.

    Raises:
        JournalError: as `check_form`, or when there is no journal.
    """
    newest = {segment_recorder(path): path for _, path in segments(directory)}
    for path in newest.values():
        try:
            metadata = pq.read_metadata(path).metadata
        except (OSError, pa.ArrowException):  # others find that it is damaged
            continue
        check_segment(path, metadata)
