"""The tutorial, typed as it stands on two machines: every command and every line that it promises."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.contract.rigs.namespaces import Host, Lab

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)(?: title=\"(\w+): ([\w.]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
COPY = re.compile(r"scp (\w+):([\w.]+) (\w+):")
PATIENCE = 120.0
ANYTHING = "…"


class Machine(NamedTuple):
    """Where commands are typed.

    Attributes:
        host: in the network.
        folder: the working directory.
        exports: what was exported there.
    """

    host: Host
    folder: Path
    exports: list[str]

    def type(self, command: str) -> str:
        """What a command prints, errors included."""
        if command.startswith("export "):
            self.exports.append(command)
            return ""
        script = "\n".join([f"cd {self.folder}", "unset PZC_IP PZC_KEY", *self.exports, command])
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(self.folder.parent / f"{self.folder.name}-state"),
        }
        return subprocess.run(
            ["ip", "netns", "exec", self.host.namespace, "bash", "-c", script], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, check=False,
        ).stdout  # fmt: skip


@pytest.fixture
def machines(lab: Lab, tmp_path: Path) -> Iterator[dict[str, Machine]]:
    segment = lab.segment()
    made: dict[str, Machine] = {}
    for name in ("rack", "desk"):
        (tmp_path / name).mkdir()
        made[name] = Machine(lab.host(name, segment), tmp_path / name, [])
    try:
        yield made
    finally:
        made["rack"].type("pzc down")


def promised(text: str) -> re.Pattern[str]:
    """Lines of the page, in which ``…`` stands for anything, and any number of spaces for one."""
    parts = map(re.escape, single(text).split(ANYTHING))
    return re.compile(".*".join(parts), re.DOTALL)


def single(text: str) -> str:
    return re.sub(r" +", " ", text)


@pytest.mark.java
@pytest.mark.once
@pytest.mark.timeout(240)
def test_the_tutorial_does_what_it_says(machines: dict[str, Machine]) -> None:
    for kind, machine, file, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if file:
            (machines[machine].folder / file).write_text(body, encoding="utf-8")
        for source, name, target in COPY.findall(body):
            shutil.copy(machines[source].folder / name, machines[target].folder / name)
        if kind != "console":
            continue
        for typed in filter(None, re.split(r"^(?=(?:rack|desk)\$ )", body, flags=re.MULTILINE)):
            line, _, expected = typed.partition("\n")
            where, _, command = line.partition("$ ")
            came = machines[where].type(command)
            assert promised(expected).fullmatch(single(came)), f"{line}\n{came}"
