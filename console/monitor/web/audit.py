"""Audit: what users of the page did, one line of JSON each. What the disk refuses is counted: it was done."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

from ....agents import MASK, AuditFile, is_secret, masked_arguments, masked_keywords
from ....protocol.contents import as_list, as_table

logger = logging.getLogger("pzc.monitor")

SHORT = 200

MAX_BYTES, KEPT = 16 << 20, 5
"""Of a file, which is renamed then; so many files are kept besides."""


class Audit:
    """Writes what was asked for and what came of it.

    Args:
        path: of the file; None writes to the log only.

    Raises:
        ConfigError: when the file cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._file = None if path is None else AuditFile(str(path.absolute()), MAX_BYTES, KEPT)
        self._lost = 0

    def write(self, user: str, address: str, agent: str, asked: dict[str, Any], outcome: str) -> None:
        """One line; values are shortened, and masked as in a server's own audit log."""
        path = str(asked.get("path", ""))[:SHORT]
        if asked.get("do") == "call":
            args, kwargs = as_list(asked.get("args")), as_table(asked.get("kwargs"))
            given: Any = [masked_arguments(path, args), masked_keywords(kwargs)]
        else:
            given = MASK if is_secret(path) else asked.get("value")
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "user": user, "address": address,
            "agent": agent, "do": asked.get("do"), "member": path,
            "given": str(given if given is not None else "")[:SHORT],
            "outcome": outcome[:SHORT],
        }  # fmt: skip
        logger.info("%s", line)
        if self._file is not None:
            with self._lock:
                self._append(self._file, line)

    def _append(self, file: AuditFile, line: dict[str, Any]) -> None:
        lost = [{"time": line["time"], "lost": self._lost}] if self._lost else []
        lines = [*lost, line]
        done, error = file.append([f"{json.dumps(each)}\n".encode() for each in lines])
        if done >= len(lost):
            self._lost = 0
        if done < len(lines):
            if not self._lost:
                logger.error("audit log %s: %s; the page goes on, and counts what is lost", file.path, error)
            self._lost += 1

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            self._file.close()
