"""The version 0.2, which calls and notifications are compared with: its commit in an environment of its own.

Both are made below ``build/`` when they are first needed. Where the commit is not in the repository's
history, or pip cannot install what it needs, that is said once and everybody else is measured.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cases import Participant
from benchmarks.children import ROOT

NEEDS = ("pyzmq", "cryptography", "msgspec", "numpy", "rich")


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
            except (OSError, subprocess.SubprocessError) as exc:
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
        _run(str(self._python), "-m", "pip", "install", "--quiet", *map(_as_here, NEEDS), str(self._source))
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


def _as_here(name: str) -> str:
    """What pip is asked for: the version that is installed here, and any where there is none."""
    try:
        return f"{name}=={importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return name


def _git(*arguments: str) -> None:
    _run("git", "-C", str(ROOT), *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)


OLD = OldVersion("443bb3e1", ROOT / "build" / "0.2")
"""Version 0.2."""


def old_version_option(parser: argparse.ArgumentParser) -> None:
    """Let the user leave 0.2 out of a benchmark."""
    parser.add_argument("--without-old", action="store_true", help="leave version 0.2 out, do not install it")


@dataclass(frozen=True)
class Versioned(Participant):
    """A participant that may be ours, in version 0.2 too.

    Attributes:
        compiled: ours with the lane in C; None for others, and where it makes no difference.
        old: ours in version 0.2.
    """

    compiled: bool | None = field(default=None, kw_only=True)
    old: bool = field(default=False, kw_only=True)

    def here(self) -> bool:
        """Whether it can take part on this machine."""
        return super().here() and bool(not self.old or OLD.python())

    @property
    def python(self) -> str:
        """The interpreter of its processes."""
        return OLD.python() if self.old else sys.executable

    @property
    def variables(self) -> dict[str, str]:
        """What its processes have in their environment besides the key."""
        lane = {} if self.compiled is None else {"PZC_COMPILED": str(int(self.compiled))}
        return {**self.environment, **lane}
