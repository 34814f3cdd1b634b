"""A unit for systemd, by which a lab is started with its user's session, or with the machine."""

from __future__ import annotations

import sys
from pathlib import Path

from ..pipeline.storage import user_folder
from .file import LabFile
from .units import ENDING

UNIT = """\
[Unit]
Description=Lab {name}: what {path} names
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
WorkingDirectory={folder}
ExecStart={python} -P -m pzc up --foreground {path}
Restart=on-failure
RestartSec=5
KillMode=mixed
TimeoutStopSec={seconds:.0f}

[Install]
WantedBy=default.target
"""


def unit_of(file: LabFile) -> str:
    """The text of the unit."""
    return UNIT.format(
        name=_plain(file.name),
        path=_quoted(str(file.path)),
        folder=_plain(str(file.folder)),
        python=_quoted(sys.executable),
        seconds=len(ENDING) * file.lab.grace + 10,
    )


def write_unit(file: LabFile) -> Path:
    """Write the unit where systemd looks for those of this user; where that is.

    Raises:
        OSError: when it cannot be written.
    """
    base = user_folder("XDG_CONFIG_HOME", ".config")
    path = base / "systemd" / "user" / f"pzc-{''.join(c if c.isalnum() else '-' for c in file.name)}.service"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(unit_of(file), encoding="utf-8")
    return path


def _plain(text: str) -> str:
    return text.replace("%", "%%").replace("\n", " ")


def _quoted(text: str) -> str:
    escaped = _plain(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"'
