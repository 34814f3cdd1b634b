"""Audit: what users of the page did, one line of JSON each."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

from ....agents.server.audit import MASK, is_secret, masked_arguments, masked_keywords
from ....protocol.contents import as_list, as_table

logger = logging.getLogger("pzc.monitor")

SHORT = 200


class Audit:
    """Writes what was asked for and what came of it.

    Args:
        path: of the file; None writes to the log only.

    Raises:
        OSError: when the file cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._file = None if path is None else path.open("a", encoding="utf-8")
        if path is not None:
            path.chmod(0o600)

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
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            self._file.close()
