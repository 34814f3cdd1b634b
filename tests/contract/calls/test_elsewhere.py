"""A process that has nothing of what only Linux offers calls, is called, publishes and reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from pzc import Agent, Protocol, Proxy, Server, Signal, block, close

from tests.contract.rigs.programs import PATIENCE

ELSEWHERE = Path(__file__).resolve().parents[2] / "elsewhere"
"""Its sitecustomize takes away what other systems lack, before anything is imported."""

pytestmark = [pytest.mark.slow, pytest.mark.once]

KEY = "a key that both sides know"
WITHOUT = ["memfd", "pidfd", "unix", "fork", "posix", "memfd,pidfd,unix,fork,posix"]

CLIENT = """
import json, sys
import numpy
import pzc

told = {}
with pzc.Proxy(sys.argv[1]) as bench:
    told["sum"] = bench.add(1, 2)
    told["array"] = float(bench.back(numpy.ones(1_000_000)).sum())
    told["later"] = bench.add.future(3, 4).result(10)
    told["stream"] = list(bench.count(3))
    try:
        bench.fail()
    except ValueError as exc:
        told["error"] = str(exc)
    with pzc.lock(bench):
        told["locked"] = bench.add(5, 6)
    for policy in (pzc.block(), pzc.latest(), pzc.mailbox()):
        with bench.changed.subscribe(policy=policy) as changes:
            bench.change(200_000)
            told[policy.name] = [int(changes.recv(10).content[0].sum()), changes.transport]
print(json.dumps(told))
"""


class Bench:
    """What is called."""

    def __init__(self) -> None:
        self.changed = Signal("value")

    def add(self, left: int, right: int) -> int:
        """The sum."""
        return left + right

    def back(self, value: object) -> object:
        """What was given."""
        return value

    def count(self, stop: int) -> Iterator[int]:
        """Numbers."""
        yield from range(stop)

    def fail(self) -> None:
        """Always."""
        raise ValueError("no luck")

    def change(self, size: int) -> None:
        """Publish so many numbers."""
        self.changed.emit(numpy.arange(size))


def started(without: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PZC_KEY": KEY, "TESTS_WITHOUT": without, "PYTHONPATH": str(ELSEWHERE)}
    return subprocess.Popen(
        [sys.executable, "-P", *arguments],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def told_by(process: subprocess.Popen[str], timeout: float = PATIENCE) -> tuple[str, str]:
    """What a process printed until its end, which it has in time."""
    try:
        return process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise


@pytest.mark.parametrize("without", WITHOUT)
def test_a_client_without_it_uses_a_server_in_every_way(without: str) -> None:
    with Server(Bench(), protocol=Protocol(KEY), discovery=False) as server:
        out, err = told_by(started(without, "-c", CLIENT, server.rep_endpoint))
    told = json.loads(out or "{}")
    assert told, err
    total = sum(range(200_000))
    assert {name: told.pop(name)[0] for name in ("block", "latest", "mailbox")} == {
        "block": total, "latest": total, "mailbox": total,
    }  # fmt: skip
    assert told == {
        "sum": 3, "array": 1e6, "later": 7, "stream": [0, 1, 2], "error": "no luck", "locked": 11,
    }  # fmt: skip


@pytest.mark.timeout(150)  # the bench starts a dozen processes
@pytest.mark.parametrize("without", WITHOUT)
def test_doctor_and_bench_find_no_fault_with_a_system_that_lacks_it(without: str) -> None:
    doctor, told = told_by(started(without, "-m", "pzc", "doctor", "--json"))
    assert doctor, told
    assert [each for each in json.loads(doctor)["findings"] if each["status"] == "failed"] == []
    bench, told = told_by(started(without, "-m", "pzc", "bench", "--seconds", "0.05", "--json"), 3 * PATIENCE)
    assert "tcp" in bench, told


@pytest.mark.parametrize("without", WITHOUT)
def test_a_server_without_it_is_used_from_a_shell_and_from_python(without: str, tmp_path: Path) -> None:
    (tmp_path / "lone.py").write_text("class Lone:\n    voltage = 1.5\n", encoding="utf-8")
    serve = ("-m", "pzc", "serve", "lone:Lone", "--poll", "voltage=0.1s", "--json")
    process = started(without, "-c", f"import os, runpy, sys; os.chdir({str(tmp_path)!r}); sys.argv = {list(serve[1:])!r}; "
                      "runpy.run_module('pzc', run_name='__main__', alter_sys=True)")  # fmt: skip
    try:
        assert process.stdout is not None
        endpoint = json.loads(process.stdout.readline() or "{}").get("rep_endpoint", "")
        assert endpoint, process.communicate(timeout=PATIENCE)
        proxy = Proxy(endpoint, protocol=Protocol(KEY), timeout=PATIENCE)
        with Agent(discovery=False, protocol=Protocol(KEY)) as reader:
            assert reader.subscribe(endpoint, "voltage", policy=block()).recv(PATIENCE).content == 1.5
        proxy.voltage = 2.5
        shell, err = told_by(started(without, "-m", "pzc", "get", f"{endpoint}.voltage"))
        assert (shell, err) == ("2.5\n", "")
        proxy._proxy_stop_server()
        close(proxy)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)
