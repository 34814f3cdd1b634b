"""Builds of the lane's C files for tests: warnings are errors, and sanitizers watch where they are asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "transport" / "lane.c"
STRICT = ["-Wall", "-Wextra", "-Werror"]
SANITIZED = [
    "-g",
    "-O1",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
]


def compilers() -> list[str]:
    """Those of gcc and clang that are here."""
    return [name for name in ("gcc", "clang", "clang-14") if shutil.which(name)]


def compiled(compiler: str, source: Path, target: Path, *options: str) -> Path:
    """The target, built; the test is skipped where Python's headers are missing."""
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").is_file():
        pytest.skip("Python.h is not installed")
    command = [compiler, *STRICT, *options, f"-I{headers}", str(source), "-o", str(target), "-ldl"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    return target


def runtime(compiler: str, name: str) -> str:
    """Path of a sanitizer's library, which must be there before Python starts."""
    command = [compiler, f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}
