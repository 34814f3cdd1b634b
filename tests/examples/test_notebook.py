"""The notebook of a recorded run, from its first cell to its last."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.conftest import Sender
from tests.pipeline.engine_rig import record, worked

nbformat: Any = pytest.importorskip("nbformat")
nbclient: Any = pytest.importorskip("nbclient")

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "recorded_run.ipynb"

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.allow_leaks("the client of a notebook keeps what it needs for its kernel"),
]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """What a lab like the demo's has left."""
    psu, analyser = Sender("psu"), Sender("co2")
    ramp = [(volts / 10, (volts - 1) / 10) for volts in range(50)]
    weeks = [{"date": f"1958-{n % 12 + 1:02d}-01", "ppm": 316 + math.sin(n)} for n in range(48)]
    weeks.append({"date": "1962-01-01", "ppm": None})
    record(tmp_path / "journal", "r", psu.rows("voltage_changed", ramp, 1))
    record(tmp_path / "journal", "r", analyser.rows("co2", weeks, 1))
    worked(tmp_path / "journal", tmp_path / "tables")
    return tmp_path / "tables"


def outputs(cell: Any) -> list[str]:
    """What a cell shows, by kind."""
    return [kind for output in cell.outputs for kind in output.get("data", {"text": ""})]


def test_every_cell_runs_and_shows_something(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_TABLES", str(tables))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(outputs(cell) for cell in cells)
    assert sum("image/png" in outputs(cell) for cell in cells) == 3


def test_the_notebook_is_kept_without_what_it_has_shown() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not [cell for cell in notebook.cells if cell.get("outputs")]
