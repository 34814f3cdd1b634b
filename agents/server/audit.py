"""Audit log of a server: who did what to its object, one JSON line per call.

::

    call, event ──▶ queue ──▶ batch ──▶ one write ──▶ path, path.1 … path.keep
                    full: lost      │   failed: lost, and the next batch tries again
                                    └──▶ on_lines

Lines that are lost are counted by a line in their place, so recorded = written + lost. The standard
library's logging handlers write record by record, and neither count nor report what they could not write.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from ...protocol.errors import BindError, ConfigError, LocalLimit
from ...transport.threads import Condition, begin
from .audit_file import AuditFile
from .audit_line import line_of, masked_keywords, shorten
from .call import Call

logger = logging.getLogger("pzc.audit")

FLUSH = 0.2
"""Seconds that a line waits for others, to be written with them."""

COMPLAIN = 60.0
"""Seconds between two warnings of one log."""

_encode = msgspec.json.Encoder().encode

Line = dict[str, Any]


class Audit:
    """Writes lines to a file that rotates; safe from any thread.

    Args:
        path: of the file; made with mode 0600, continued when it exists. Each server needs one of its own.
        max_bytes: size before which the file becomes ``path.1`` and a new one begins.
        keep: older files that are kept.
        bound: lines that may wait to be written; further ones are lost, and counted.
        clock: monotonic seconds, for the pause between two warnings.

    Attributes:
        dropped: calls and events that are not in the file and never will be.
        written: calls and events in the file.
        errors: failed writes and renamings.
        on_lines: called in the writing thread with the lines of each batch.

    Raises:
        ConfigError: when the file cannot be opened, or a number is below 1.
        BindError: when no thread can be started.
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
        self._changed = Condition()  # reentrant: a signal handler may record while its thread is in here
        self._queue: deque[Line] = deque()
        self._unwritten: list[
            Line
        ] = []  # at most one line: how many the file has refused since its last write
        self._closed = False
        self._complained = -math.inf
        self.dropped = self.written = self.errors = 0
        self.on_lines: Callable[[list[Line]], object] | None = None
        self._thread = threading.Thread(target=self._run, name="pzc-audit", daemon=True)
        try:
            begin(self._thread)
        except LocalLimit as exc:
            self._file.close()
            raise BindError(f"audit log {path}: its thread cannot start: {exc}") from exc

    def note(self, call: Call, answer: Any, seconds: float) -> None:
        """Queue the line of a call that was answered, or not executed; other requests have none."""
        if call.action:
            self.put(line_of(call, answer, seconds))

    def event(self, name: str, /, **fields: Any) -> None:
        """Queue a line that is no call, such as a change of the lock.

        ``fields`` are shortened and masked as keyword arguments are; ``key`` is the name of a key and stays.
        """
        line = {"at": time.time(), "event": name, **masked_keywords(fields)}
        self.put(line | {"key": shorten(fields["key"])} if "key" in fields else line)

    def put(self, line: Line) -> None:
        """Queue a line; never waits for the file."""
        with self._changed:
            waiting = len(self._queue)
            if self._closed:
                self.dropped += 1
            elif waiting < self._bound:
                self._queue.append(line)
                if waiting in (0, self._bound // 2):  # others only cost the caller a switch of threads
                    self._changed.notify()
            else:
                self.dropped += 1
                if "lost" not in self._queue[-1]:
                    self._queue.append(_lost(0, "too many lines were waiting"))
                self._queue[-1]["lost"] += 1

    def close(self, timeout: float = 2.0) -> None:
        """Write what is queued, within ``timeout`` seconds; what is recorded later counts as dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout)
        if self._thread.is_alive():
            logger.warning("audit log %s still hangs after %g s; it is left behind", self._file.path, timeout)

    def _run(self) -> None:
        closed = False
        while not closed:
            with self._changed:
                while not (self._queue or self._closed):
                    self._changed.wait()
                self._changed.wait_for(lambda: self._closed or len(self._queue) > self._bound // 2, FLUSH)
                closed, batch, self._queue = self._closed, list(self._queue), deque()
            try:
                self._write(self._unwritten + batch)
            except Exception:  # such as MemoryError; later lines may be written
                logger.exception("audit log %s: %d lines are lost", self._file.path, len(batch))
        self._file.close()
        if self._unwritten:
            text = "audit log %s: the last %d lines are lost"
            logger.warning(text, self._file.path, self._unwritten[0]["lost"])

    def _write(self, batch: list[Line]) -> None:
        lines = [{"time": _iso(line["at"]), **line} for line in batch]
        done, error = self._file.append(map(_bytes, lines))
        missed = batch[done:]
        lost = sum("lost" not in line for line in missed)
        with self._changed:
            self.dropped += lost
            self.written += sum("lost" not in line for line in batch[:done])
        self._unwritten = []
        if missed:
            reason = f"{type(error).__name__}: {getattr(error, 'strerror', error)}"
            self._unwritten = [_lost(sum(line.get("lost", 1) for line in missed), reason)]
        if error is not None:
            self.errors += 1
            self._complain(error)
        if self.on_lines is not None:
            self.on_lines(lines)

    def _complain(self, error: OSError) -> None:
        now = self._clock()
        if now - self._complained >= COMPLAIN:
            self._complained = now
            missing = sum(line["lost"] for line in self._unwritten)
            text = "audit log %s: %s; calls go on, %d lines are lost so far"
            logger.warning(text, self._file.path, error, missing)


def _lost(count: int, reason: str) -> Line:
    return {"at": time.time(), "lost": count, "reason": reason}


def _bytes(line: Line) -> bytes:
    with contextlib.suppress(UnicodeError):  # half a surrogate pair, as in the name of a foreign file
        encoded = _encode(line)
        if encoded.decode().isprintable():  # not so: a line separator, at which other readers break lines
            return encoded + b"\n"
    return f"{json.dumps(line)}\n".encode()


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
