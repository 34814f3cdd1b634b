"""Where the lines of an audit log go: its file, whole lines with rotation; and its topic."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ...protocol.errors import AgentClosed, ConfigError, PzcError
from ...transport.counters import Counters
from ...transport.executor import Executor

_AUDIT_WAITING = 10_000
"""Audited calls that wait to be published; others are counted as ``calls_unpublished``."""


logger = logging.getLogger("pzc.audit")

CALLS = "pzc/calls"
"""Topic under which a server publishes its lines."""

_BINARY = getattr(os, "O_BINARY", 0)  # else Windows writes two bytes for a line's end


class AuditFile:
    """Appends whole lines to a file, which it renames when it is full; used by one thread.

    Before each write the path is looked up, since the file may have been renamed or deleted. After a
    failure it is opened again.

    Args:
        path: absolute.
        max_bytes: size that it does not exceed.
        keep: files that are kept besides.

    Raises:
        ConfigError: when it cannot be opened.
    """

    def __init__(self, path: str, max_bytes: int, keep: int) -> None:
        self.path = path
        self._names = [path, *(f"{path}.{number}" for number in range(1, keep + 1))]
        self._max_bytes = max_bytes
        self._fd, self._torn = -1, False
        try:
            self._ready()
        except (OSError, ValueError) as exc:
            self.close()
            raise ConfigError(f"audit log {path}: {exc}; name a file that this user may write") from exc

    def append(self, lines: Iterable[bytes]) -> tuple[int, OSError | None]:
        """Write lines; how many of them are whole in the file, and what went wrong if anything did."""
        data, done, error = b"".join(lines), 0, None
        try:
            while done < len(data):
                size = self._ready()
                end = data.rfind(b"\n", done, done + max(0, self._max_bytes - size)) + 1
                if not end and size and error is None:
                    error = self._rotate()
                    continue
                if not end:  # one line above the limit, or a file that grows since it cannot be renamed
                    end = len(data) if error else data.index(b"\n", done) + 1
                if self._torn:
                    os.write(self._fd, b"\n")
                    self._torn = False
                while done < end:
                    done += os.write(self._fd, data[done:end])
        except OSError as exc:
            error = exc.with_traceback(None)  # which holds this frame
            self.close()
        return data.count(b"\n", 0, done), error

    def close(self) -> None:
        """Close it; the next line opens it again."""
        fd, self._fd = self._fd, -1
        with contextlib.suppress(OSError):
            os.close(fd)

    def _ready(self) -> int:
        """Open what the path names now, unless it is open; its size in bytes."""
        try:
            same = self._fd >= 0 and os.path.samestat(os.fstat(self._fd), os.stat(self.path))
        except OSError:
            same = False
        if not same:
            self.close()
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY, 0o600)
            size = os.fstat(self._fd).st_size
            if size:
                os.lseek(self._fd, -1, os.SEEK_END)
            self._torn = size > 0 and os.read(self._fd, 1) != b"\n"
        return os.fstat(self._fd).st_size

    def _rotate(self) -> OSError | None:
        self.close()  # Windows renames no open file
        try:
            # A hole, left by a rotation that was interrupted, is filled before the oldest file goes.
            holes = (number for number, name in enumerate(self._names) if not os.path.lexists(name))
            for number in range(next(holes, len(self._names) - 1), 0, -1):
                os.replace(self._names[number - 1], self._names[number])
        except OSError as exc:
            return exc
        return None


CLOSE_TIMEOUT = 0.5
"""Seconds that the last lines have to be published."""


class AuditTopic:
    """Publishes lines, in a thread of its own; any thread.

    A reader with the policy ``block`` lets publications wait; the log itself has to be written all the same.

    Args:
        publish: a topic and a content; it may wait.
        wanted: whether somebody listens to a topic.
        counters: where lines are counted that were not published.
    """

    def __init__(
        self, publish: Callable[[str, Any], object], wanted: Callable[[str], bool], counters: Counters
    ) -> None:
        self._publish = publish
        self._wanted = wanted
        self._counters = counters
        self._executor = Executor("pzc-calls", bound=_AUDIT_WAITING + 1)  # one for the end

    def tell(self, lines: Iterable[dict[str, Any]]) -> None:
        """Publish lines soon, in order, when somebody listens; never waits."""
        if not self._wanted(CALLS):
            return
        for line in lines:
            try:
                taken = len(self._executor) < _AUDIT_WAITING and self._executor.submit(
                    partial(self._tell, line)
                )
            except (AgentClosed, RuntimeError):  # it was stopped, or no thread is left
                taken = False
            if not taken:
                self._counters.add("calls_unpublished")

    def _tell(self, line: dict[str, Any]) -> None:
        try:
            self._publish(CALLS, line)
        except PzcError as exc:  # it is in the file, and nobody else waits for it
            self._counters.add("calls_unpublished")
            logger.debug("an audit line was not published: %s", exc)

    def close(self) -> None:
        """Publish what waits, as far as there is time; what waits for a reader ends with the publisher."""
        published = threading.Event()
        with contextlib.suppress(RuntimeError):  # no thread is left, nor is anything published
            self._executor.submit(published.set)
            published.wait(CLOSE_TIMEOUT)
        self._counters.add("calls_unpublished", len(self._executor.abandon()))
