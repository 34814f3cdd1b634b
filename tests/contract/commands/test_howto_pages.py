"""Pages of the manual that hold programs or commands: each is run from its first line to its last, beside a lab."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.rigs.pages import DOCS, Machine, follow

PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

pytestmark = [pytest.mark.slow, pytest.mark.once, pytest.mark.timeout(240)]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    monkeypatch.setenv("MPLBACKEND", "agg")
    made = Machine(tmp_path)
    yield made
    made.type("cd lab && pzc down")


@pytest.mark.parametrize("page", ["policies.md", "notebooks.md", "from-pyro5.md"])
def test_the_programs_of_a_page_run_as_they_stand(page: str, machine: Machine) -> None:
    blocks = PYTHON.findall((DOCS / page).read_text(encoding="utf-8"))
    for library in ("Pyro5", "matplotlib"):
        if importlib.util.find_spec(library) is None:
            blocks = [block for block in blocks if library not in block]
    (machine.folder / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    machine.type("pzc demo lab")
    assert machine.type("python page.py && echo all of it").splitlines()[-1:] == ["all of it"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_a_lab_becomes_a_service_as_the_page_says(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(machine.folder / "config"))
    follow("boot.md", {"": machine})


@pytest.mark.java
@pytest.mark.xdist_group("spark")
def test_what_was_recorded_is_asked_as_the_page_says(machine: Machine) -> None:
    follow("record-and-query.md", {"": machine})
