"""Pages of the manual, typed as they stand: every command, and every line that they promise.

A code block with a title is a file (``rack: supply.py`` of the machine ``rack``); one of kind ``console`` holds commands
behind ``rack$`` or ``$``, each with what it prints, in which ``…`` stands for anything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"
BLOCK = re.compile(r"^```(\w+)(?: title=\"(?:(\w+): )?([\w.]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
COPY = re.compile(r"scp (\w+):([\w.]+) (\w+):")
PROMPT = re.compile(r"^(?=\w*\$ )", re.MULTILINE)
PATIENCE = 120.0
ANYTHING = "…"


class Machine:
    """Where commands are typed.

    Args:
        folder: the working directory.
        prefix: what runs a shell there.
        unset: variables that nobody has set there.
    """

    def __init__(self, folder: Path, prefix: Sequence[str] = (), unset: Sequence[str] = ()) -> None:
        self.folder = folder
        self._prefix, self._begin = prefix, [f"cd {folder}", *(f"unset {name}" for name in unset)]

    def type(self, command: str) -> str:
        """What a command prints, errors included."""
        if command.startswith("export "):
            self._begin.append(command)
            return ""
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(self.folder.parent / f"{self.folder.name}-state"),
        }
        return subprocess.run(
            [*self._prefix, "bash", "-c", "\n".join([*self._begin, command])], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, check=False,
        ).stdout  # fmt: skip


def follow(page: str, machines: Mapping[str, Machine]) -> None:
    """Do what a page says.

    Args:
        page: its file name.
        machines: by the name before the prompt.

    Raises:
        AssertionError: for a command that printed something else than the page says.
    """
    for kind, machine, file, body in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if file:
            (machines[machine].folder / file).write_text(body, encoding="utf-8")
        for source, name, target in COPY.findall(body):
            shutil.copy(machines[source].folder / name, machines[target].folder / name)
        for typed in filter(None, PROMPT.split(body) if kind == "console" else ()):
            line, _, expected = typed.partition("\n")
            where, _, command = line.partition("$ ")
            came = machines[where].type(command)
            assert _promised(expected).fullmatch(_single(came)), f"{line}\n{came}"


def _promised(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, _single(text).split(ANYTHING))), re.DOTALL)


def _single(text: str) -> str:
    return re.sub(r" +", " ", text)
