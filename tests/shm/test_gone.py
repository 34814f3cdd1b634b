from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np

from pzc.shm.gone import when_gone


def test_the_end_of_an_object_without_a_hash_is_told_once_and_not_before() -> None:
    told: list[int] = []
    thing = np.zeros(3)
    when_gone(thing, lambda: told.append(1))
    when_gone(thing, lambda: told.append(2))
    view = thing[1:]
    del thing
    gc.collect()
    assert told == []
    del view
    assert sorted(told) == [1, 2]
    gc.collect()
    assert sorted(told) == [1, 2]


def test_nothing_is_told_at_exit() -> None:
    code = """
import numpy as np
from pzc.shm.gone import when_gone
thing = np.zeros(3)
when_gone(thing, lambda: print("told"))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=30.0
    )
    assert (done.stdout, done.stderr) == ("", "")
