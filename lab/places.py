"""Where a lab keeps what it writes, and where it is asked."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from io import FileIO
from pathlib import Path

from ..pipeline.storage import lock_file, user_folder
from ..protocol.errors import ConfigError, JournalError
from .file import located

_LOOKED = 0.5
"""Seconds within which whoever looks has looked."""


class Places:
    """Folders and files of the lab of one lab file; made when first needed, for this user only.

    Args:
        file: the lab file.

    Attributes:
        file: the lab file.
        state: ``$XDG_STATE_HOME/pzc/labs/NAME-ID``, default ``~/.local/state/…``.
    """

    def __init__(self, file: Path) -> None:
        self.file = path = located(file)
        self.id = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        base = user_folder("XDG_STATE_HOME", ".local", "state")
        self.state = base / "pzc" / "labs" / f"{path.parent.name or 'lab'}-{self.id}"
        self._runtime = _runtimes()[0]

    @property
    def endpoint(self) -> str:
        """Where its supervisor is asked."""
        return f"ipc://{self._runtime / self.id}.sock"

    @property
    def lock(self) -> Path:
        """File that its supervisor holds locked as long as it lives."""
        return self._runtime / f"{self.id}.lock"

    def log_of(self, name: str) -> Path:
        """File with the output of a process; ``lab`` is the supervisor itself."""
        return self.state / f"{name.replace('/', '%2F')}.log"

    def make(self) -> None:
        """Make the folders.

        Raises:
            ConfigError: when they cannot be made, or belong to somebody else.
        """
        if _user() is None:
            raise ConfigError("a lab is kept running on Linux and macOS only; here pzc serve starts a server")
        try:
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise ConfigError(f"the lab's folder {exc.filename} cannot be made: {exc.strerror}") from exc
        if not _is_own(self._runtime):
            raise ConfigError(
                f"{self._runtime} must belong to this user alone: chown and chmod 700 it, or set "
                "XDG_RUNTIME_DIR to a folder that does"
            )

    def take(self) -> FileIO | None:
        """Hold the lock; its file, or None while another supervisor lives."""
        if self.free():
            with suppress(JournalError):  # whoever looks holds it for a moment
                return lock_file(self.lock, "its supervisor lives", _LOOKED)
        return None

    def free(self) -> bool:
        """True when no supervisor lives, whatever the environment of whoever started it."""
        for self._runtime in _runtimes():
            if not self._is_free():
                return False
        self._runtime = _runtimes()[0]
        return True

    def _is_free(self) -> bool:
        if not (_is_own(self._runtime) and self.lock.exists()):
            return True
        with suppress(JournalError):  # shared, as several may look at once
            lock_file(self.lock, "its supervisor lives", shared=True).close()
            return True
        return False


def _user() -> int | None:
    """None on a system that numbers no users."""
    return os.getuid() if hasattr(os, "getuid") else None


def _runtimes() -> list[Path]:
    """Where supervisors of this user may be, by this environment first: a service has not that of a login."""
    given, user = os.environ.get("XDG_RUNTIME_DIR", ""), _user()
    own = [Path(given) / "pzc"] if os.path.isabs(given) and os.path.isdir(given) else []
    temporary = (Path(each) / f"pzc-{user}" for each in (tempfile.gettempdir(), "/tmp"))
    return [*own, *temporary, Path(f"/run/user/{user}/pzc")]


def _is_own(folder: Path) -> bool:
    """Whether a folder belongs to this user alone: what is in there is of nobody else."""
    with suppress(OSError):
        about = folder.stat()
        return about.st_uid == _user() and not about.st_mode & 0o077
    return False
