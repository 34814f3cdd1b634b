"""Two labs on one network: neither takes anything away from the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pzc import Agent

from tests.contract.rigs.labs import Bench
from tests.contract.rigs.pairs import eventually

pytestmark = pytest.mark.needs("posix")

RECORDER = '[recorder]\njournal = "journal"\npatterns = ["psu"]\n'


@pytest.fixture
def labs(tmp_path: Path) -> Iterator[list[Bench]]:
    with ExitStack() as stack:
        made = list[Bench]()
        for name in ("the east", "west"):
            (tmp_path / name).mkdir()
            made.append(Bench(tmp_path / name))
            stack.callback(made[-1].run, "down")
            made[-1].write(RECORDER)
        yield made


def test_two_labs_that_record_the_same_agent_have_all_of_it(labs: list[Bench]) -> None:
    with Agent(name="psu") as psu:
        psu.publish("voltage", 0.0)
        assert [lab.run("up").status for lab in labs] == [0, 0]
        assert psu.wait_for_subscribers("voltage", 2, 20.0)
        for number in range(1, 11):
            psu.publish("voltage", float(number))
        eventually(lambda: sum(each["delivered"] for each in psu.statistics()["mailboxes"]) == 20)
    found = [lab.run("journal", "info", "journal", "--json").json for lab in labs]
    assert [[each["rows"] for each in told["topics"]] for told in found] == [[10], [10]]
