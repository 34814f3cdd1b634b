"""Where the lines of an audit log go: into a file that rotates, and out as a topic."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ...protocol.errors import AgentClosed, ConfigError, LocalLimit, PzcError
from ...transport.counters import Counters
from ...transport.executor import Executor

logger = logging.getLogger("pzc.audit")

CALLS = "pzc/calls"
"""Topic under which a server publishes its lines."""

MOST_UNPUBLISHED = 10_000
"""Lines that wait to be published; others are counted as ``calls_unpublished``."""

CLOSE_TIMEOUT = 0.5
"""Seconds that the last lines have to be published."""

_BINARY = getattr(os, "O_BINARY", 0)  # else Windows writes two bytes for a line's end


class AuditFile:
    """Appends lines to a file, which it renames before it would be too large; for one thread.

    Each batch looks the path up, since another program may have renamed or deleted the file.

    Args:
        path: absolute.
        max_bytes: largest size, unless one batch of lines is larger.
        keep: older files that are kept: ``path.1``, the newest, to ``path.keep``.

    Raises:
        ConfigError: when the file cannot be opened.
    """

    def __init__(self, path: str, max_bytes: int, keep: int) -> None:
        self.path = path
        self._names = [path, *(f"{path}.{number}" for number in range(1, keep + 1))]
        self._max_bytes = max_bytes
        self._fd, self._torn = -1, False
        try:
            self._open()
        except (OSError, ValueError) as exc:
            self.close()
            raise ConfigError(f"audit log {path}: {exc}; name a file that this user may write") from exc

    def append(self, lines: Iterable[bytes]) -> tuple[int, OSError | None]:
        """Write lines; returns how many are whole in the file, and what went wrong, if anything did."""
        data, done, error = b"".join(lines), 0, None
        try:
            size = self._open()
            if size and size + len(data) > self._max_bytes:
                error = self._rotate()
                self._open()
            if self._torn:
                os.write(self._fd, b"\n")
                self._torn = False
            while done < len(data):
                done += os.write(self._fd, data[done:])
        except OSError as exc:
            error = exc.with_traceback(None)  # which holds this frame
            self.close()
        return data.count(b"\n", 0, done), error

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        fd, self._fd = self._fd, -1
        with contextlib.suppress(OSError):
            os.close(fd)

    def _open(self) -> int:
        """Open what the path names now, unless it is open; returns its size."""
        with contextlib.suppress(OSError):
            found = os.fstat(self._fd)
            if os.path.samestat(found, os.stat(self.path)):
                return found.st_size
        self.close()
        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY, 0o600)
        size = os.fstat(self._fd).st_size
        if size:
            os.lseek(self._fd, -1, os.SEEK_END)
        self._torn = size > 0 and os.read(self._fd, 1) != b"\n"  # a crash or a full disk cut the last line
        return size

    def _rotate(self) -> OSError | None:
        self.close()  # Windows renames no open file
        try:
            for number in range(len(self._names) - 1, 0, -1):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(self._names[number - 1], self._names[number])
        except OSError as exc:
            return exc
        return None


class AuditTopic:
    """Publishes lines in a thread of its own: a reader with the policy ``block`` never delays the file.

    Args:
        publish: publishes a content under a topic; may wait.
        wanted: tells whether a topic has readers.
        counters: count the lines that were not published.
    """

    def __init__(
        self, publish: Callable[[str, Any], object], wanted: Callable[[str], bool], counters: Counters
    ) -> None:
        self._publish = publish
        self._wanted = wanted
        self._counters = counters
        self._executor = Executor("pzc-calls", bound=MOST_UNPUBLISHED)

    def send(self, lines: Iterable[dict[str, Any]]) -> None:
        """Publish lines soon, in order, when the topic has readers; never waits."""
        if not self._wanted(CALLS):
            return
        for line in lines:
            taken = False
            with contextlib.suppress(AgentClosed, LocalLimit):
                taken = self._executor.submit(partial(self._send, line))
            if not taken:
                self._counters.add("calls_unpublished")

    def _send(self, line: dict[str, Any]) -> None:
        try:
            self._publish(CALLS, line)
        except PzcError as exc:  # the line is in the file
            self._counters.add("calls_unpublished")
            logger.debug("an audit line was not published: %s", exc)

    def close(self) -> None:
        """Publish what waits, as far as `CLOSE_TIMEOUT` allows."""
        published = threading.Event()
        with contextlib.suppress(LocalLimit):  # then nothing is being published either
            if self._executor.submit(published.set):
                published.wait(CLOSE_TIMEOUT)
        self._counters.add("calls_unpublished", len(self._executor.abandon()))
