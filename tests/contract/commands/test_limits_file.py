"""A file of limits that is edited while a pipeline runs."""

from __future__ import annotations

import datetime
import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from pzc.testing.journals import Recording, write_journal

from tests.contract.rigs.console import Console
from tests.contract.rigs.processes import Forge
from tests.contract.rigs.tables import KEY

pytest.importorskip("duckdb")

ALL, NONE = '[limits.all]\nwhere = "true"\n', '[limits.none]\nwhere = "false"\n'


@dataclass
class Edited:
    """A lab whose limits change between two batches.

    Attributes:
        console: runs the pipeline, in the folder of the journal and of the limits.
        batches: that were recorded.
    """

    console: Console
    batches: int = 0

    def limit(self, text: str) -> None:
        (self.console.folder / "limits.toml").write_text(text, encoding="utf-8")

    def record(self) -> None:
        """Three notifications, as a recorder of its own writes them."""
        self.batches += 1
        start = datetime.datetime(2026, 1, self.batches, tzinfo=datetime.UTC)
        some = Recording(
            published=3, agents=1, restarts=0, lost=0, repeated=0, damaged=0, seed=self.batches, start=start
        )
        write_journal(self.console.folder / "journal", some, recorder=f"recorder{self.batches}")

    def run(self, *limits: str) -> tuple[list[int], str]:
        """Alarms of one batch for each of the texts, and what the command wrote to stderr."""
        options = "--limits", "limits.toml", "--every", "0.05", "--json"
        self.limit(limits[0])
        self.record()
        running = self.console.start("pipeline", "run", "journal", "tables", *options)
        alarms = [json.loads(running.line())["alarms"]]
        for before, text in pairwise(limits):
            if text != before:
                self.limit(text)
            self.record()
            alarms.append(json.loads(running.line())["alarms"])
        running.send_signal(signal.SIGINT)
        return alarms, running.finish().err


@pytest.fixture
def edited(tmp_path: Path, forge: Forge) -> Iterator[Edited]:
    console = Console(tmp_path, forge)
    console.environment["PZC_KEY"] = KEY
    yield Edited(console)
    console.close()


def test_an_edited_limit_judges_the_next_batch(edited: Edited) -> None:
    assert edited.run(NONE, ALL)[0] == [0, 3]


def test_a_broken_edit_is_said_once_and_the_limits_of_before_stay(edited: Edited) -> None:
    broken = '[limits.all]\nwhere = "no_such_column > 1"\n'
    alarms, told = edited.run(ALL, broken, broken)
    assert alarms == [3, 3, 3]
    assert told.count("limit 'all' cannot be judged") == 1
