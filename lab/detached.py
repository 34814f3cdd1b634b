"""A program that starts another one, tells its process id, and ends: nobody's child goes on.

Run as ``python -I -S detached.py LOG COMMAND ARGUMENT...``.
"""

import os
import subprocess
import sys

with open(sys.argv[1], "ab") as log:
    started = subprocess.Popen(
        sys.argv[2:], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
print(started.pid, flush=True)  # noqa: T201
os._exit(0)
