"""``pzc pipeline follow``: from the command line, and killed in the middle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pzc.pipeline.tables.commit_log import listed
from pzc.pipeline.tables.follow import mailbox_name

from tests.contract.rigs import environments
from tests.contract.rigs.peers import KEY
from tests.contract.rigs.tables import run, stored
from tests.pipeline.faults_pipeline import LONGEST, Running
from tests.pipeline.publishers import Publishers, await_, is_read, waiting

own_environment = environments.own_environment

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(280),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]

BATCH = 500
ROWS = 10 * BATCH
RUN = "pipeline", "follow"


def has_files(tables: Path) -> bool:
    found = listed(tables)
    return found is not None and bool(found.places)


@pytest.mark.slow
def test_a_run_that_is_killed_in_a_batch_and_run_again_has_everything_once(
    spark: Any, publishers: Publishers, tmp_path: Path
) -> None:
    hand = publishers.start()
    tables = tmp_path / "tables"
    given = "--max-files", "1"
    agents = hand.ask("endpoint")
    running = Running(
        tmp_path / "log", agents, str(tables), *given, "--every", "0.05", "--master", "local[1]",
        job="follow", PZC_KEY=KEY,
    )  # fmt: skip
    try:
        await_(lambda: is_read(hand) or running.status is not None, "the mailbox", LONGEST)
        hand.ask("publish", "v", ROWS)
        await_(lambda: has_files(tables) or running.status is not None, "the first batch", LONGEST)
        assert running.status is None, running.told()
        running.kill()
        await_(running.gone, "the end of all that the run has started", LONGEST)
    finally:
        running.close()
    hand.ask("publish", "v", 100)
    told = run(tmp_path, *RUN, agents, "tables", "--once", key=KEY)
    assert told.status == 0
    assert f"as {mailbox_name(tables)}" in told.err
    assert " 0 missing" in told.out
    assert int(told.out.split()[0]) < ROWS + 100
    found = stored(tables, "notifications", "publisher", "epoch", "topic", "sequence")
    assert len(found) == len(set(found)) == ROWS + 100
    await_(lambda: waiting(hand) == 0)
