"""The page about drivers, typed as it stands: PyVISA, PyMeasure, QCoDeS, ophyd, bluesky and a C library."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tests.contract.rigs.pages import Machine, follow

LIBRARIES = ("pyvisa_sim", "pymeasure", "qcodes", "ophyd", "bluesky")
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.timeout(240)
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, LIBRARIES)),
    reason="drivers are missing: pip install --group test-more",
)
def test_drivers_of_others_work_as_their_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    os.symlink(ROOT / "examples", tmp_path / "examples")
    machine = Machine(tmp_path)
    try:
        follow("drivers.md", {"": machine})
    finally:
        machine.type("pzc down")
