"""A supervisor, and the processes that it keeps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pzc import PeerLost
from pzc.lab.places import Places
from pzc.lab.process import LabProcess
from pzc.lab.supervisor import Supervisor
from pzc.lab.units import Unit

pytestmark = pytest.mark.needs("posix")


def test_nothing_is_started_in_a_lab_that_is_being_ended(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text('[server.psu]\nobject = "fractions:Fraction"\n', encoding="utf-8")
    supervisor = Supervisor(path, Places(path))
    supervisor.close()
    with pytest.raises(PeerLost, match="is being ended"):
        supervisor.up([])
    assert supervisor.status() == []


class Unsaid(float):
    """Seconds that a keeper cannot read: it fails before it starts anything."""

    def __str__(self) -> str:
        return "for ever"


def test_a_process_whose_keeper_fails_is_started_again(tmp_path: Path) -> None:
    unit = Unit("psu", "server", ("version",), "on-failure")
    process = LabProcess(unit, tmp_path, os.environ, tmp_path / "psu.log", Unsaid(5.0))
    assert process.wait_settled(30.0)
    report = process.report()
    process.stop()
    process.join()
    assert (report["state"], report["restarts"]) == ("waiting", 1)
    assert "ValueError" in report["last"]
