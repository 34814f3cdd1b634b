"""Other times and limits, for tests that cannot wait as long as a lab does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..protocol import limits
from ..protocol.limits import Limits


class Timings:
    """Limits that hold while the ``with`` block runs, for everything that begins in it.

    ::

        with Timings(silence=0.2):
            server = Server(supply)

    Args:
        changes: values by the names of `pzc.protocol.Limits`; the others keep their defaults.

    Attributes:
        limits: all of them.

    Raises:
        ConfigError: for a name or value that cannot be used.
    """

    def __init__(self, **changes: Any) -> None:
        self.limits: Limits = limits.changed(Limits(), changes, "Timings")
        self._changes = changes
        self._before: list[Limits] = []

    def __enter__(self) -> Timings:
        self._before.append(limits.use(self.limits))
        return self

    def __exit__(self, *exc: object) -> None:
        limits.use(self._before.pop())

    def write(self, folder: Path) -> Path:
        """Write a settings file for commands and child processes, to be named by ``PZC_CONFIG``.

        Args:
            folder: where ``pzc.toml`` is written.

        Raises:
            OSError: when it cannot be written.
        """
        path = folder / "pzc.toml"
        lines = [f"{name} = {value!r}" for name, value in self._changes.items()]
        path.write_text("\n".join(["[limits]", *lines, ""]), encoding="utf-8")
        return path
