"""``pzc demo``: a small lab without hardware, as files to look at and to change."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from ..protocol.errors import ConfigError
from ..protocol.shown import plain
from .lab import show, start
from .options import Commands, add_command, add_json
from .output import say, write, write_new

FOLDER = "pzc-demo"

INSTRUMENTS = '''\
"""Two instruments without hardware; change them, then: pzc restart psu dmm"""

import math
import random
import time

import pzc


class PowerSupply:
    """A supply of 0 to 30 V."""

    def __init__(self):
        self.voltage_changed = pzc.Signal("volts")
        self._voltage = 0.0

    @property
    def voltage(self):
        """Programmed voltage in volts."""
        return self._voltage

    @voltage.setter
    def voltage(self, volts):
        if not 0 <= volts <= 30:
            raise ValueError(f"{volts} V is outside 0..30 V")
        self._voltage = float(volts)
        self.voltage_changed.emit(self._voltage)

    @pzc.on_cancel("off")
    def ramp(self, stop, step=0.1, pause=0.1):
        """Raise the voltage in steps; Ctrl-C at the caller ends it and switches the output off."""
        while self._voltage < stop and not pzc.cancelled():
            self.voltage = min(stop, self._voltage + step)
            time.sleep(pause)
        return self._voltage

    @pzc.urgent
    def off(self):
        """Zero volts at once, whatever runs."""
        self.voltage = 0.0


class Multimeter:
    """A meter that knows nothing of pzc; the lab file has it polled."""

    @property
    def reading(self):
        """Volts."""
        return math.sin(time.time() / 10) + random.gauss(0, 0.01)
'''

LAB = """\
# pzc up starts this, pzc status shows it, pzc down ends it; every key is in the manual: lab.md

[lab]
name = "demo"
{monitor}
[server.psu]
object = "instruments:PowerSupply"

[server.dmm]
object = "instruments:Multimeter"
poll = {{ reading = 0.5 }}
{recorder}"""

MONITOR = """\
monitor = 0   # the page that shows all of this, at a port that is free
"""

RECORDER = """
[recorder]
journal = "journal"
"""

TRY = """\
try:
  pzc ls
  pzc set psu.voltage 3.3
  pzc call psu.ramp 5          (Ctrl-C switches it off)
  pzc watch 'psu/*'
  pzc watch dmm/reading
{page}in {folder}, where its files are:
  pzc status
  pzc down"""


def add_commands(commands: Commands) -> None:
    """Add the command of this module."""
    demo = add_command(
        commands, "demo", run_demo, "write a small lab without hardware, and start it",
        "pzc demo\n  pzc demo ~/first-lab",
    )  # fmt: skip
    demo.add_argument(
        "folder", nargs="?", type=Path, default=Path(FOLDER), metavar="DIR",
        help=f"of its files, created when absent; default {FOLDER}",
    )  # fmt: skip
    add_json(demo)


def run_demo(args: argparse.Namespace) -> int:
    """``pzc demo``; files that are there stay as they are."""
    folder: Path = args.folder
    if folder.is_file():
        raise ConfigError(f"{folder} is a file: pzc demo DIR takes a folder")
    folder.mkdir(parents=True, exist_ok=True)
    shows = all(find_spec(package) is not None for package in ("starlette", "uvicorn", "websockets"))
    records = find_spec("pyarrow") is not None
    lab = LAB.format(monitor=MONITOR if shows else "", recorder=RECORDER if records else "")
    for name, text in {"instruments.py": INSTRUMENTS, "lab.toml": lab}.items():
        path = folder / name
        if not path.exists():
            write_new(path, text)
        elif not path.is_file():
            raise ConfigError(f"{path} is no file: pzc demo DIR takes another folder")
    rows = start(folder / "lab.toml", [])
    status = show(rows, args.json)
    for has, part, extra in ((shows, "monitor", "monitor"), (records, "recorder", "pipeline")):
        if not has:
            say(f"without a {part}, which needs pip install 'pzc[{extra}]'")
    if not args.json:
        pages = [f"  {row['address']}   (the lab in a browser)\n" for row in rows if row["kind"] == "monitor"]
        write(plain("\n" + TRY.format(folder=folder, page="".join(pages))))
    return status
