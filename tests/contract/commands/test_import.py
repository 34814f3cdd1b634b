"""How long `import pzc` takes, what it brings along, and that everything is there nevertheless."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

TIMES = 5
IDLE = {
    "asyncio", "cryptography.x509", "hypothesis", "importlib.metadata", "matplotlib", "numpy", "pandas", "pyarrow",
    "pyspark", "sqlite3", "ssl", "tenacity", "tomllib", "zmq.asyncio",
}  # fmt: skip
"""What most programs never use, and those that do may import then."""


def seconds(code: str) -> float:
    """The least processor time of a new interpreter that runs some code."""
    found: list[float] = []
    for _ in range(TIMES):
        pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-P", "-c", code])
        _, status, usage = os.wait4(pid, 0)
        assert status == 0
        found.append(usage.ru_utime + usage.ru_stime)
    return min(found)


@pytest.mark.serial
@pytest.mark.needs("fork")
def test_an_import_takes_no_more_than_two_of_numpy() -> None:
    """On the machine where numpy takes 0.07 s these are 0.15 s."""
    nothing = seconds("pass")
    assert seconds("import pzc") - nothing <= 2.1 * (seconds("import numpy") - nothing)


@pytest.mark.parametrize("statement", ["import pzc", "from pzc import Agent, Protocol, Proxy, Server"])
def test_an_import_brings_nothing_that_most_programs_never_use(statement: str) -> None:
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not IDLE & set(done.stdout.split())


def test_a_command_that_reads_one_attribute_brings_no_numpy() -> None:
    code = (
        "import sys; from pzc.testing import command; from pzc import Server\n"
        "with Server(type('Supply', (), {'voltage': 1.5})()) as server:\n"
        "    assert command('get', server.rep_endpoint + '.voltage').out == '1.5\\n'\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "pandas", "pyarrow"} & set(done.stdout.split())


def test_every_public_name_is_there_although_it_is_imported_late() -> None:
    code = (
        "import pzc; assert set(pzc.__all__) <= set(dir(pzc))\n"
        "assert all(getattr(pzc, name) is getattr(pzc, name) for name in pzc.__all__)\n"
        "assert not hasattr(pzc, 'what_is_not_there')"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
