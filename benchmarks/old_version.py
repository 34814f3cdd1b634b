"""The version 0.1, with which calls are compared: its commit in a worktree and an environment of its own.

Both are made below ``build/`` when they are first needed. Where the commit is not in the repository's
history, or pip cannot install what it needs, that is said once and everybody else is measured.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

from benchmarks.children import ROOT

NEEDS = ("pyzmq", "cryptography", "msgspec", "numpy", "tenacity")


class OldVersion:
    """One commit of this repository, installed beside it.

    Args:
        commit: its name.
        folder: where worktree and environment are made.
    """

    def __init__(self, commit: str, folder: Path) -> None:
        self._commit = commit
        self._source = folder / "source"
        self._place = folder / "environment"
        self._ready = self._place / "ready"
        self._python: str | None = None

    def python(self) -> str:
        """The interpreter of its environment; empty when there is none, which is said once."""
        if self._python is None:
            self._python = str(self._place / "bin" / "python")
            try:
                self._install()
            except (OSError, subprocess.SubprocessError, importlib.metadata.PackageNotFoundError) as exc:
                told = str(getattr(exc, "stderr", None) or exc)
                print(
                    f"==> version {self._commit} is left out: {told.strip().splitlines()[-1]}",
                    file=sys.stderr,
                )
                self._python = ""
        return self._python

    def leave_out(self) -> None:
        """Do without it."""
        self._python = ""

    def _install(self) -> None:
        if self._ready.exists():
            return
        self.source()
        print(f"==> installing version {self._commit} into {self._place}", file=sys.stderr)
        _run(sys.executable, "-m", "venv", "--clear", str(self._place))
        same = [f"{name}=={importlib.metadata.version(name)}" for name in NEEDS]
        _run(str(self._python), "-m", "pip", "install", "--quiet", *same, str(self._source))
        self._ready.touch()

    def source(self) -> Path:
        """The folder of its files.

        Raises:
            OSError, SubprocessError: when the commit, or git, is not there.
        """
        if not (self._source / "pyproject.toml").exists():
            _git("cat-file", "-e", f"{self._commit}^{{commit}}")
            _git("worktree", "prune")
            _git("worktree", "add", "--quiet", "--force", "--detach", str(self._source), self._commit)
        return self._source


def _git(*arguments: str) -> None:
    _run("git", "-C", str(ROOT), *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)


OLD = OldVersion("ffa221f", ROOT / "build" / "0.1")
"""Version 0.1."""
