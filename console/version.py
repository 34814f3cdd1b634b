"""``pzc version``."""

from __future__ import annotations

import argparse
import platform

import zmq

from .. import __version__
from ..transport.stream import WHICH
from .options import Commands, add_command, add_json
from .output import write, write_json


def add_commands(commands: Commands) -> None:
    """Add the command of this module."""
    add_json(add_command(commands, "version", run_version, "print the versions in use", "pzc version"))


def run_version(args: argparse.Namespace) -> int:
    """``pzc version``."""
    versions = {
        "pzc": __version__, "python": platform.python_version(), "pyzmq": zmq.pyzmq_version(),
        "libzmq": zmq.zmq_version(), "stream": WHICH,
    }  # fmt: skip
    if args.json:
        write_json(versions)
    else:
        write(" ".join(f"{name} {version}" for name, version in versions.items()))
    return 0
