"""A recorder and its publisher are killed at random moments: nothing that was acknowledged is missing."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest

from tests.pipeline.publishers import await_
from tests.pipeline.recorder_rig import Lab, recorded

pytestmark = pytest.mark.slow

KILLS = 50
LONGEST_LIFE = 0.5
"""Seconds between two kills, at most."""


def test_nothing_acknowledged_is_missing_after_fifty_kills(tmp_path: Path) -> None:
    dice, pause = Random(7), threading.Event()
    acknowledged: dict[tuple[str, int], int] = {}
    with Lab(tmp_path, max_age=0.1) as lab:
        lab.writer.ask("statistics")
        lab.source.ask("begin", 0.001)
        for _ in range(KILLS):
            pause.wait(dice.uniform(0.0, LONGEST_LIFE))
            if dice.random() < 0.75:
                lab.writer.kill()
                lab.start_recorder()
            else:
                agent, epoch, delivered, evicted = lab.source.ask("state")
                acknowledged[agent, epoch] = delivered
                assert evicted == 0
                lab.source.kill()
                lab.start_publisher().ask("begin", 0.001)
        lab.writer.ask("statistics")
        agent, epoch, _, _ = lab.source.ask("state")
        await_(lambda: lab.source.ask("state")[2] > 0, "the last publisher is recorded")
        published = lab.source.ask("end")
        await_(lambda: lab.source.ask("waiting") == 0, "everything is acknowledged")
        lab.writer.stop()
    found = recorded(tmp_path)
    for numbers in found.values():  # a new publisher has published before it is found
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
    for key, count in acknowledged.items():
        assert sum(len(numbers) for (*who, _), numbers in found.items() if tuple(who) == key) >= count
    assert {topic: len(found[agent, epoch, topic]) > 0 for topic in published} == dict.fromkeys(
        published, True
    )
    assert {topic: found[agent, epoch, topic][-1] for topic in published} == published
