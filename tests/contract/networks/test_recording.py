"""A recorder on one host and publishers on two others, while the network comes apart and heals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pzc import block

from tests.contract.rigs.namespaces import Host, Lab
from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.peers import KEY
from tests.contract.rigs.processes import Hand
from tests.contract.rigs.residents import Residents

TIMEOUT = 30.0
BEFORE, APART, AFTER = 20, 200, 20
TOPIC = "frame"

Hosts = tuple[Host, Host, Host]
Sent = dict[str, list[int]]


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Hosts:
    segment = lab.segment()
    return lab.host("store", segment), lab.host("one", segment), lab.host("two", segment)


@pytest.fixture
def publishers(hosts: Hosts, residents: Residents) -> dict[str, Hand]:
    """A hand of each publisher, by its endpoint."""
    made = [residents.agent(host) for host in hosts[1:]]
    return {at: hand for hand, at in made}


class Recording:
    """``pzc record`` on a host."""

    def __init__(self, host: Host, journal: Path, *sources: str) -> None:
        self.journal = journal
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PZC_")}
        self._process = host.python(
            "-m", "pzc", "record", *sources, "--journal", str(journal), "--age", "0.2", "--json",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**environ, "PZC_KEY": KEY},
        )  # fmt: skip
        assert self._process.stdout is not None
        self._told = self._process.stdout
        self.place = json.loads(self._told.readline())

    def sequences(self) -> Sent:
        """Numbers in the journal, by publisher, in order."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for path in self.journal.glob("segment-*.parquet"):
            rows = pq.read_table(path, columns=["publisher", "sequence"]).to_pylist()
            for row in rows:
                found[row["publisher"]].append(row["sequence"])
        return {publisher: sorted(numbers) for publisher, numbers in found.items()}

    def wait_for(self, count: int) -> None:
        """Wait until each of two publishers has so many in the journal."""
        eventually(
            lambda: sorted(len(set(numbers)) for numbers in self.sequences().values()) == [count] * 2, TIMEOUT
        )

    def end(self) -> dict[str, Any]:
        """Stop it as Ctrl-C does; what it tells at its end."""
        self._process.send_signal(signal.SIGINT)
        told, _ = self._process.communicate(timeout=TIMEOUT)
        assert self._process.returncode == 0, told
        return json.loads(told.splitlines()[-1])

    def close(self) -> None:
        with self._process:
            self._process.kill()


@pytest.fixture
def recording(hosts: Hosts, publishers: dict[str, Hand], tmp_path: Path) -> Iterator[Recording]:
    made = Recording(hosts[0], tmp_path / "journal", *publishers)
    try:
        yield made
    finally:
        made.close()


def everybody_publishes(publishers: dict[str, Hand], first: int, count: int) -> None:
    for hand in publishers.values():
        hand.ask("publish", TOPIC, [100] * count, first)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("who", ["the recorder", "a publisher"])
def test_a_partition_that_heals_costs_the_journal_nothing(
    hosts: Hosts, residents: Residents, publishers: dict[str, Hand], recording: Recording, who: str
) -> None:
    store, one, _ = hosts
    witness, _ = residents.agent(store)
    witness.ask("subscribe", "w", next(iter(publishers)), "other", block(), how="hash")
    everybody_publishes(publishers, 1, BEFORE)
    recording.wait_for(BEFORE)
    with (store if who == "the recorder" else one).cut_off():
        witness.start("wait_for", "w", "lost")
        everybody_publishes(publishers, BEFORE + 1, APART)
        assert "unreachable" in witness.finish()[0]
    everybody_publishes(publishers, BEFORE + APART + 1, AFTER)
    recording.wait_for(BEFORE + APART + AFTER)
    everything = list(range(1, BEFORE + APART + AFTER + 1))
    assert all(sorted(set(numbers)) == everything for numbers in recording.sequences().values())
    told = recording.end()
    assert told["lost_on_the_way"] == told["refused_by_journal"] == 0
