"""Audit log of a server: who did what to its object, one JSON line per call.

::

    record, event ──▶ queue ──▶ batch ──▶ one write ──▶ path, path.1 … path.keep
                      full: lost      │   failed: lost, tried again with the next batch
                                      └──▶ on_lines

A call pays for a put, and for shortening arguments that are large or could change; the thread ``pzc-audit``
does the rest.
What is lost is told in the file, where it is missing: recorded = written + lost.

Not the standard library's QueueHandler, QueueListener and RotatingFileHandler: they write record by
record, go on writing to a deleted file, and neither count nor tell a line that could not be written.
"""

from __future__ import annotations

import functools
import itertools
import json
import logging
import math
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import msgspec

from ...protocol.errors import BindError, ConfigError
from ...protocol.lazily import numpy_kind
from .audit_file import AuditFile

logger = logging.getLogger("pzc.audit")

LONGEST = 200  # characters that are kept of a string or a summary
MOST = 16  # arguments that are kept of a call: so many positional and so many keyword ones
FLUSH = 0.2  # seconds that a line waits for others, to be written with them
COMPLAIN = 60.0  # seconds between two warnings of one log
MASK = "***"  # stands for a secret
_IDLE = 5.0
_ITEMS, _LEVELS = 6, 3
_INT64 = 2**63 - 1
_SCALARS = frozenset((int, float, bool, complex, type(None)))
_LISTS, _BYTES = (list, tuple, set, frozenset, deque), (bytes, bytearray, memoryview)

_encode = msgspec.json.Encoder().encode
_search = functools.lru_cache(1024)(re.compile("password|secret|token|key", re.IGNORECASE).search)
_text_of = functools.lru_cache(256)(str)


class CallRecord(NamedTuple):
    """One call, as a server saw it.

    Attributes:
        at: Unix seconds of its arrival.
        call_id: message id of the request.
        key: proven name of the signing key; empty when unsigned.
        agent: agent id of the caller.
        address: where it came from, such as ``unix pid 4711 uid 0`` or ``tcp 10.0.0.7``.
        action: such as ``exec``, ``getattr`` or ``setattr``, on ``member``.
        args: positional arguments, as received; ``kwargs`` likewise.
        outcome: ``ok``, ``raised``, ``refused`` or ``cancelled``.
        error: such as ``ValueError: out of range``; empty when there was none.
        duration_ms: from its arrival to its outcome.
    """

    at: float
    call_id: str
    key: str
    agent: str
    address: str
    action: str
    member: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outcome: str
    error: str
    duration_ms: float


_Names = tuple[str, ...]
_Entry = tuple[_Names | None, Any]
"""Names and values; None and what makes the values of a `CallRecord`."""

_CALL, _LOST = CallRecord._fields, ("at", "lost", "reason")


class Audit:
    """Writes calls and events to a file that rotates; safe from any thread.

    Args:
        path: of the file; created with mode 0600, continued when it exists. One server per file.
        max_bytes: size that the file does not exceed; it becomes ``path.1`` and a new one is begun.
        keep: files that are kept besides, ``path.1`` being the newest.
        bound: lines that may wait to be written; further ones are lost, and counted.
        clock: monotonic seconds, for the pause between two warnings.

    Attributes:
        dropped: calls and events that are not in the file and never will be.
        written: calls and events that were written.
        errors: times that writing or rotating failed.
        on_lines: called in the thread that writes, with the lines of each batch once they were to be written.

    Raises:
        ConfigError: when the file cannot be opened, or a number is below 1.
        BindError: when there is no thread for it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = 16 * 1024 * 1024,
        keep: int = 5,
        bound: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not isinstance(cast("object", path), str | bytes | os.PathLike):
            raise ConfigError(f"audit={path!r:.80} cannot be used: expected the path of a file")
        if min(max_bytes, keep, bound) < 1:
            raise ConfigError(f"audit log {path}: {max_bytes=}, {keep=}, {bound=}; each must be at least 1")
        self._file = AuditFile(os.path.abspath(path), max_bytes, keep)
        self._bound, self._clock = bound, clock
        self._lock = threading.RLock()  # a signal handler may record while its thread is in here
        self._queue: deque[_Entry] = deque()
        self._overflow = self._unwritten = 0  # not told yet: lost behind the queue's end, and by the writer
        self._open = True  # lines are queued without a second look
        self._trouble, self._complained = "", -math.inf
        self.dropped = self.written = self.errors = 0
        self.on_lines: Callable[[list[dict[str, Any]]], object] | None = None
        self._awake = self._closed = self._ended = False
        self._wake, self._hurry = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="pzc-audit", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as exc:
            self._file.close()
            raise BindError(
                f"audit log {path}: its thread cannot start: {exc}; close what is not needed, or raise the "
                "limit of threads (ulimit -u)"
            ) from exc

    def record(self, call: CallRecord) -> None:
        """Queue the line of a call; never raises, and never waits for the file."""
        try:
            values = _call_values(call)
        except Exception:  # a call must not fail for its line
            values = None
        self.put(_CALL, values)

    def event(self, name: str, /, **fields: Any) -> None:
        """Queue a line that is no call, such as a lock's change; as `record`.

        ``fields`` are shortened and masked as keyword arguments are; ``key`` is the name of a key and stays.
        """
        told = masked_keywords(fields)
        if "key" in told:
            told["key"] = shorten(fields["key"])
        self.put(("at", "event", *told), (time.time(), name, *told.values()))

    def close(self, timeout: float = 2.0) -> None:
        """Write what is queued, within ``timeout`` seconds; what is recorded later counts as dropped."""
        with self._lock:
            self._closed, self._open = True, False
        self._wake.set()
        self._hurry.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            logger.warning("audit log %s still hangs after %g s; it is left behind", self._file.path, timeout)

    def put(self, names: _Names | None, values: Any) -> None:
        """Queue a line; as `record`.

        Args:
            names: of its fields; None for those of a `CallRecord`.
            values: in that order, None for a line that is lost already; of a `CallRecord` what makes them
                when the line is written, where they are shortened.
        """
        queue = self._queue
        waiting = len(queue)
        if (not self._open or waiting >= self._bound or values is None) and not self._may_queue(values):
            return
        queue.append((names, values))
        # Waking costs the caller a thread switch, so only the first line of a batch does it.
        if not self._awake:
            self._wake_up()
        elif waiting * 2 >= self._bound:
            self._hurry.set()

    def _may_queue(self, values: object) -> bool:
        """Whether a line may wait, after what was lost before it was told."""
        with self._lock:
            if values is None or self._closed or len(self._queue) >= self._bound:
                self.dropped += 1
                self._overflow += not self._closed
                self._open = False
                return False
            if self._overflow:
                self._queue.append(self._take_overflow())
            self._open = True
            return True

    def _wake_up(self) -> None:
        self._awake = True
        self._wake.set()
        if self._ended:
            self._drop_rest()

    def _drop_rest(self) -> None:
        """Count what nobody will write any more."""
        with self._lock:
            self.dropped += len(self._take_all())

    def _take_all(self) -> list[_Entry]:
        return [self._queue.popleft() for _ in range(len(self._queue))]

    def _take_overflow(self) -> _Entry:
        lost, self._overflow = self._overflow, 0
        return _LOST, (time.time(), lost, "too many lines were waiting, or an unusable record")

    def _run(self) -> None:
        going = True
        while going:
            self._wake.wait(_IDLE)
            self._hurry.wait(FLUSH)
            going = not self._closed
            self._wake.clear()
            self._hurry.clear()
            self._awake = False  # whoever finds that afterwards wakes this thread again
            self._write(self._take())
        self._ended = True
        self._drop_rest()
        self._file.close()
        if self._unwritten:
            logger.warning("audit log %s: the last %d lines are lost", self._file.path, self._unwritten)

    def _take(self) -> list[_Entry]:
        batch = self._take_all()
        with self._lock:
            if self._overflow and not self._queue:
                batch.append(self._take_overflow())
        if self._unwritten:
            batch.insert(0, (_LOST, (time.time(), self._unwritten, self._trouble)))
        return batch

    def _write(self, batch: list[_Entry]) -> None:
        lines, done, error = list[dict[str, Any]](), 0, cast("Exception | None", None)
        try:
            lines = [_line(*entry) for entry in batch]
            done, error = self._file.append([_bytes(line) for line in lines])
        except Exception as exc:  # for want of memory: what comes later may be written
            error = exc.with_traceback(None)
        missed = batch[done:]
        lost = sum(names is not _LOST for names, _ in missed)
        self.written += sum(names is not _LOST for names, _ in batch[:done])
        self._unwritten = lost + sum(entry[1][1] for entry in missed if entry[0] is _LOST)
        with self._lock:
            self.dropped += lost
        if error is not None:
            self._trouble = f"{type(error).__name__}: {getattr(error, 'strerror', error)}"
            if self._clock() - self._complained >= COMPLAIN:
                self._complained = self._clock()
                text = "audit log %s: %s; calls go on, %d lines are lost so far"
                logger.warning(text, self._file.path, error, self._unwritten)
            self.errors += 1
        if self.on_lines is not None:
            self.on_lines(lines)


def _line(names: _Names | None, values: Any) -> dict[str, Any]:
    if names is None:
        names, values = _CALL, _call_values(values())
    return {"time": _iso(values[0]), **dict(zip(names, values, strict=True))}


def _bytes(line: dict[str, Any]) -> bytes:
    try:
        encoded = _encode(line)
        if not encoded.decode().isprintable():  # such as a line separator, which other readers break lines at
            encoded = json.dumps(msgspec.json.decode(encoded)).encode()
        return encoded + b"\n"
    except Exception:  # half a surrogate pair, as in the name of a foreign file, is no UTF-8
        return json.dumps(line, ensure_ascii=False, default=repr).encode("utf-8", "replace") + b"\n"


def _iso(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def _call_values(call: Sequence[Any]) -> Sequence[Any]:
    at, call_id, key, agent, address, action, member, args, kwargs, outcome, error, duration_ms = call
    shown = masked_arguments(member, args) if args else ()
    named = masked_keywords(kwargs) if kwargs else {}
    if len(call_id) + len(key) + len(agent) + len(address) + len(action) + len(member) + len(error) > LONGEST:
        call_id, key, agent, address = shorten(call_id), shorten(key), shorten(agent), shorten(address)
        action, member, error = shorten(action), shorten(member), shorten(error)
    return at, call_id, key, agent, address, action, member, shown, named, outcome, error, duration_ms


def masked_arguments(member: str, args: Sequence[Any]) -> list[Any]:
    """Shortened; masked behind the name of a secret, as in ``set_password(x)`` or ``set("password", x)``."""
    secret = is_secret(member)
    shown: list[Any] = []
    for arg in args[:MOST]:
        shown.append(MASK if secret else shorten(arg))
        secret = secret or (type(arg) is str and arg[:LONGEST].isidentifier() and is_secret(arg))
    if len(args) > MOST:
        shown.append(f"… {len(args)} in all")
    return shown


def masked_keywords(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Shortened; masked where their names are those of secrets."""
    some = itertools.islice(kwargs.items(), MOST)
    shown = {str(shorten(name)): MASK if is_secret(name) else shorten(value) for name, value in some}
    if len(kwargs) > MOST:
        shown["…"] = f"{len(kwargs)} in all"
    return shown


def is_secret(name: object) -> bool:
    """True for a name of something that is not shown."""
    return isinstance(name, str) and (len(name) > LONGEST or _search(name) is not None)


def shorten(value: Any) -> Any:
    """What the log keeps of a value: itself when it is a scalar of JSON, else a short text; never raises."""
    kind = cast("type[Any]", type(value))
    if kind is str:
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}… ({len(value)} characters)"
    if kind is float:
        return value if math.isfinite(value) else repr(value)  # JSON has no nan
    if value is None or kind is bool or (kind is int and -_INT64 <= value <= _INT64):
        return value
    try:
        if numpy_kind(kind) == "generic" and type(value.item()) in (bool, int, float, str):
            return shorten(value.item())
        text = _summary(value, _LEVELS)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    except Exception:  # its repr raised, or another thread changed it meanwhile
        return f"<{kind.__name__[:LONGEST]}>"


def _summary(value: Any, levels: int) -> str:
    """As `reprlib`, which sorts all of a dictionary, and shows all of bytes, numbers and subclasses."""
    kind = cast("type[Any]", type(value))
    if kind is str:
        return repr(value[:LONGEST])
    if kind is int and value.bit_length() > LONGEST:
        return f"int[{value.bit_length()} bits]"
    if kind in _SCALARS:
        return repr(value)
    if issubclass(kind, _LISTS):
        marks = "()" if issubclass(kind, tuple) else "{}" if issubclass(kind, (set, frozenset)) else "[]"
        return _several(marks, (_summary(item, levels - 1) for item in value), len(value), levels)
    if issubclass(kind, dict):
        parts = (
            f"{_summary(k, levels - 1)}: {_masked(k, v, levels)}" for k, v in dict[object, Any].items(value)
        )
        return _several("{}", parts, len(value), levels)
    if issubclass(kind, _BYTES):
        return f"{kind.__name__}[{memoryview(value).nbytes}]"
    if hasattr(kind, "__array__") and numpy_kind(kind) != "generic":
        name = _text_of(value.dtype) if hasattr(kind, "dtype") else kind.__name__
        return f"{name}[{', '.join(map(str, value.shape))}]"
    names: Collection[str] | None = getattr(kind, "__struct_fields__", None) or getattr(
        kind, "__dataclass_fields__", None
    )
    if names:
        parts = (f"{name}={_masked(name, getattr(value, name), levels)}" for name in names)
        return kind.__name__ + _several("()", parts, len(names), levels)
    return repr(value)


def _masked(name: object, value: Any, levels: int) -> str:
    return MASK if is_secret(name) else _summary(value, levels - 1)


def _several(marks: str, parts: Iterable[str], count: int, levels: int) -> str:
    shown = list(itertools.islice(parts, _ITEMS)) if levels > 0 else []
    if len(shown) < count:
        shown.append(f"… {count} in all" if shown else "…")
    return f"{marks[0]}{', '.join(shown)}{marks[1]}"
