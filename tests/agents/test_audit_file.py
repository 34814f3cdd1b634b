"""The file of an audit log, as systems want it that rename no open file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT = 20.0

ROTATING = """
import os, sys
from pzc.agents.server.audit_file import AuditFile

def watch(event, arguments):
    if event == "os.rename":
        renamed.append(os.stat(arguments[0]).st_ino)
        still_open.extend(set(renamed) & {inode(name) for name in os.listdir("/proc/self/fd")})

def inode(name):
    try:
        return os.stat(f"/proc/self/fd/{name}").st_ino
    except OSError:
        return 0

renamed, still_open = [], []
sys.addaudithook(watch)
file = AuditFile(sys.argv[1], max_bytes=100, keep=3)
for number in range(10):
    assert file.append([b"x" * 40 + b"\\n"]) == (1, None)
print(len(renamed), len(still_open))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="what a process has open is asked of Linux")
def test_no_file_is_renamed_while_it_is_open(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ROTATING, str(tmp_path / "log")]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout
    renamed, still_open = map(int, told.split())
    assert renamed > 1
    assert still_open == 0
