"""Verify and decode journal rows; this is what workers do.

For every row, in this order: content fetched (a blob must match its digest) → signature → safe
decode → typed columns. Rows that resemble one that was verified before take a
shorter way, with the same outcome: all together by `bulk` and `columns`. A row that fails anywhere
becomes a quarantine row with the error's class and text. Nothing raises, so no row can stop a query.

Content is decoded with the restricted decoder even when it is signed: a recording outlives the
trust in its key, and a pipeline needs plain data only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from ...protocol import limits
from ...protocol.codec import Codec, Message
from ...protocol.errors import DecodeError
from ...protocol.frames import PZC00, Kind
from ...protocol.keyring import Key, Keyring, Role, refuse_to_travel
from ..arrow import pa
from ..schema import DECODED, FRAMES, NOTIFICATIONS
from . import bounds, columns
from .bulk import Bulk
from .values import Value, as_value, decoded, read_blob
from .watchdog import Watchdog

_ROWS_WITH_BLOBS = 64
"""Bytes of a blob are not in the batch that refers to it."""
_NUMBER = 32
"""Bytes of a number of a list while it is on its way into a column."""

_CLAIMED = ("publisher", "topic", "epoch", "sequence")
_FOUND = tuple(name for name in NOTIFICATIONS.names if name not in columns.KEPT)
_NOTHING = (None,) * len(_FOUND)


class _Failure(NamedTuple):
    error: str
    reason: str


Judged = tuple[object, ...] | _Failure
"""What becomes of a row: the columns of `_FOUND`, or why it has none."""


class _TooLarge(BaseException):
    """Rows hold more than may be in memory together; no fault of one of them."""


def _revived(cls: type[Decoder], keys: list[tuple[bytes, str, Role]], journal: Path | None) -> Decoder:
    # Spark sends a decoder to its workers, with the keys: they verify rows that came to no agent.
    if not keys:
        return cls(None, journal)
    active, *others = (Key(*each) for each in keys)
    return cls(Keyring([active, *(key for key in others if key.key_id != active.key_id)], active), journal)


class Decoder:
    """Callable for ``mapInArrow``: batches of `schema.JOURNAL` to batches of `schema.DECODED`.

    Spark pickles it, with its keys, for its workers. With keys it is not sent in a message. What it knows of
    rows it has seen stays here. See `make_decoder`.
    """

    def __init__(self, keyring: Keyring | None, journal: Path | None) -> None:
        self.keyring, self.journal = keyring, journal
        self._codec, self._bulk, self._watchdog = Codec(keyring), Bulk(), Watchdog()
        self._room = sys.maxsize

    def __reduce__(self) -> tuple[Callable[..., Decoder], tuple[object, ...]]:
        ring = self.keyring
        pickler = sys._getframe(1).f_globals.get("__name__", "")  # pyright: ignore[reportPrivateUsage]
        if ring is not None and pickler.startswith("pzc.protocol."):
            refuse_to_travel("a decoder", self)
        keys = [] if ring is None else [(key.secret, key.name, key.role) for key in (ring.active, *ring)]
        return _revived, (type(self), keys, self.journal)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode batch by batch, in parts where its rows hold much; never raises for what a row holds."""
        for batch in batches:
            blobs = batch.column("content_ref").null_count < len(batch)
            start, step = 0, _ROWS_WITH_BLOBS if blobs else max(1, len(batch))
            while start < max(1, len(batch)):
                self._room = limits.current.stored_batch if step > 1 else sys.maxsize
                try:
                    decoded = self.decode(batch.slice(start, step))
                except _TooLarge:
                    step = (step + 1) // 2
                    continue
                finally:
                    self._room = sys.maxsize
                yield decoded
                start += step

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One batch, however large; as many rows out as in, in the same order."""
        with self._watchdog:
            return _bounded(batch, self._judge_all(batch))

    def _judge_all(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows without anything unusual by columns, the others one by one."""
        frames = [batch.column(name).fill_null(b"").to_pylist() for name in FRAMES]
        refs = batch.column("content_ref").to_pylist()
        judged: dict[int, Judged] = {}

        def judge(row: int) -> None:
            judged[row] = self._judged([column[row] for column in frames], refs[row])

        self._bulk.forget()
        headers, names, contents, msgids, proofs = frames
        if any(refs):  # a content that is elsewhere is not verified by what stands here
            proofs = [b"" if ref else proof for ref, proof in zip(refs, proofs, strict=True)]
        opened = self._bulk.open(headers, names, contents, msgids, proofs, judge)
        good, failed = columns.read(
            batch, contents, opened, self._bulk.lines, partial(self._watchdog.run, self._value)
        )
        if good is not None and len(good) == len(batch):
            return good
        judged |= {row: _failure(exc) for row, exc in failed.items()}
        taken = set(opened.rows) - failed.keys()
        rest = [row for row in range(len(batch)) if row not in taken]
        for row in rest:
            if row not in judged:
                judge(row)
        others = _assembled(_rows(batch, rest), [judged[row] for row in rest])
        if good is None:
            return others
        return _in_order(([row for row in opened.rows if row not in failed], good), (rest, others))

    def _judged(self, frames: Sequence[bytes], ref: str | None) -> Judged:
        try:
            return self._watchdog.run(self._row, frames, ref)
        except Exception as exc:  # whatever is wrong with a row is its reason
            return _failure(exc)

    def open(self, frames: Sequence[bytes], content_ref: str | None = None) -> tuple[Message, Any]:
        """Verify and decode one notification, for a look at its whole content.

        Args:
            frames: the five frames of a journal row.
            content_ref: the row's, when its content is kept in a blob.

        Raises:
            ProtocolError: when it does not verify or decode.
            OSError: when the blob cannot be read.
        """
        if content_ref is not None:
            if self.journal is None:
                raise DecodeError("the content is kept in a blob and no journal directory was given")
            frames = [*frames[:2], read_blob(self.journal, content_ref), *frames[3:]]
        envelope = self._codec.open(frames, kind=Kind.NOTIFICATION)
        return envelope, decoded(envelope.serializer, cast("bytes", envelope.content))

    def _value(self, serializer: str, body: bytes) -> Value:
        return self._weighed(as_value(decoded(serializer, body)))

    def _weighed(self, value: Value) -> Value:
        lists = value.value_list, *(each["values"] for each in value.arrays or ())
        numbers = sum([len(each) for each in lists if each])
        self._room -= len(value.value_json or "") + len(value.value_string or "") + _NUMBER * numbers
        if self._room < 0:
            raise _TooLarge
        return value

    def _row(self, frames: Sequence[bytes], ref: str | None) -> Judged:
        envelope, content = self.open(frames, ref)
        self._bulk.learn(frames, envelope)
        signer, sent = envelope.signer, (envelope.stamp.ms if envelope.stamp else None)
        return (
            envelope.sender,
            envelope.topic,
            envelope.key or None,
            envelope.epoch,
            None if envelope.dialect == PZC00 else envelope.sequence,
            envelope.msgid,
            None if sent is None else sent * 1000,
            envelope.dialect,
            *((None, None) if signer is None else (signer.key_id, signer.name)),
            *self._weighed(as_value(content)),
        )


def make_decoder(key_material: Keyring | str | bytes | None, *, journal: str | Path | None = None) -> Decoder:
    """The function that verifies and decodes journal rows, for ``mapInArrow``.

    Args:
        key_material: a keyring, one secret (``PZC_KEY``), or None for unsigned journals, in
            which case every signed row goes to quarantine.
        journal: the journal's directory, for contents kept in blobs; every worker must reach it.

    Raises:
        ConfigError: for an empty secret.
    """
    keyring = Keyring.from_key(key_material) if isinstance(key_material, str | bytes) else key_material
    return Decoder(keyring, Path(journal).absolute() if journal is not None else None)


def _rows(batch: pa.RecordBatch, places: Sequence[int]) -> pa.RecordBatch:
    return batch.take(pa.array(places, pa.int64()))


def _in_order(*parts: tuple[Sequence[int], pa.RecordBatch]) -> pa.RecordBatch:
    """Rows of some batches, put by the places that each of them has."""
    order = np.argsort([place for places, _ in parts for place in places])
    return _rows(pa.concat_batches([batch for _, batch in parts]), order.tolist())


def _bounded(batch: pa.RecordBatch, decoded: pa.RecordBatch) -> pa.RecordBatch:
    """The decoded rows of a batch, with those in quarantine that tables cannot take."""
    beyond = bounds.beyond(decoded).items()
    return _refuse(batch, decoded, {row: _Failure("DecodeError", why) for row, why in beyond})


def _failure(exc: Exception) -> _Failure:
    text = str(exc).encode("utf-8", "backslashreplace").decode()
    return _Failure(type(exc).__name__, text or type(exc).__name__)


def _storable(row: Judged) -> Judged:
    if isinstance(row, _Failure):
        return row
    try:
        for name, value in zip(_FOUND, row, strict=True):
            pa.array([value], DECODED.field(name).type)
    except Exception as exc:  # whatever Arrow says is the reason
        return _failure(exc)
    return row


def refused(batch: pa.RecordBatch, error: str, reason: str) -> pa.RecordBatch:
    """Rows of `schema.DECODED` that nobody looked at."""
    why = dict.fromkeys(range(len(batch)), _Failure(error, reason))
    return _refuse(batch, columns.assembled(batch, {}), why)


def _refuse(batch: pa.RecordBatch, decoded: pa.RecordBatch, why: Mapping[int, _Failure]) -> pa.RecordBatch:
    """The decoded rows of a batch; of some what the journal claims, their frames, and why, for quarantine."""
    if not why:
        return decoded
    bad, rest = _rows(batch, list(why)), [row for row in range(len(batch)) if row not in why]
    told = {name: bad.column(name) for name in (*_CLAIMED, *FRAMES)}
    errors, reasons = (pa.array([one[n] for one in why.values()], pa.string()) for n in range(2))
    refused = columns.assembled(bad, {**told, "error": errors, "reason": reasons})
    return _in_order((rest, _rows(decoded, rest)), (list(why), refused))


def _assembled(batch: pa.RecordBatch, rows: Sequence[Judged]) -> pa.RecordBatch:
    try:
        return _assemble(batch, rows)
    except Exception:  # one value that Arrow cannot hold must not take the others with it
        return _assemble(batch, [_storable(row) for row in rows])


def _assemble(batch: pa.RecordBatch, rows: Sequence[Judged]) -> pa.RecordBatch:
    why = {place: row for place, row in enumerate(rows) if isinstance(row, _Failure)}
    told = [_NOTHING if place in why else row for place, row in enumerate(rows)]
    values = zip(*told, strict=True) if told else ((),) * len(_FOUND)
    found = {
        name: pa.array(column, DECODED.field(name).type) for name, column in zip(_FOUND, values, strict=True)
    }
    return _refuse(batch, columns.assembled(batch, found), why)
