"""The console's commands in this process and its one Spark session, which no command has to start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pzc.console import main as console
from pzc.console import pipeline as commands


def call(spark: Any, folder: Path, *arguments: str, key: str | None = "a key of the lab") -> int:
    """Run a command in a folder; its status. Without a key it has what this environment says."""

    @contextmanager
    def session(master: str) -> Iterator[Any]:
        yield spark

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "_spark", session)
        if key is not None:
            patch.setenv("PZC_KEY", key)
        patch.chdir(folder)
        return console.main(arguments)
