"""Servers that die or freeze at random moments; ``CALL_MOMENTS=1000`` lets as many happen instead of 200."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.rigs.faults import Breeder, Metronome, Mortal, executions
from tests.contract.rigs.faults_random import Findings, Rig

logger = logging.getLogger("tests.faults")

RIGS = 5
MOMENTS = 10
SEEDS = range(1, 1 + -(-int(os.environ.get("CALL_MOMENTS", "200")) // (RIGS * MOMENTS)))


@pytest.fixture(scope="module")
def breeder() -> Iterator[Breeder]:
    made = Breeder()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", SEEDS)
def test_whenever_a_server_dies_or_freezes_every_call_ends_in_time_runs_once_at_most_and_its_proxy_works_again(
    breeder: Breeder, tmp_path: Path, seed: int
) -> None:
    servers = []
    with Metronome() as metronome, ThreadPoolExecutor(RIGS) as pool:
        findings = Findings(metronome)
        running = []
        for number in range(RIGS):
            folder = tmp_path / str(number)
            folder.mkdir()
            servers.append(Mortal(breeder, folder))
            running.append(pool.submit(Rig(servers[-1], findings, f"{seed}.{number}").live, MOMENTS))
        for each in running:
            each.result()
    executed: Counter[int] = Counter()
    for server in servers:
        executed += executions(server.notes)
    logger.info("worst overrun %s, slowest recovery %s", max(findings.overruns), max(findings.recoveries))
    logger.info("outcomes %s", Counter(findings.outcomes))
    assert not findings.wrong, "\n".join(findings.wrong)
    assert not [number for number, times in executed.items() if times > 1]
    assert not [number for number in findings.answered if not executed[number]]
    assert not "".join(server.logged() for server in servers)
    assert len(findings.recoveries) == RIGS * MOMENTS * 5
