"""The audit log of the monitor's page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pzc.console.monitor.web.audit import Audit

pytestmark = pytest.mark.needs("linux")


def test_lines_that_the_disk_refused_are_counted_where_they_are_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    log = Audit(path)
    for value in ("1", "2"):
        log.write("alice", "::1", "psu", {"do": "set", "path": "voltage", "value": value}, "ok")
    path.unlink()
    log.write("alice", "::1", "psu", {"do": "set", "path": "voltage", "value": "3"}, "ok")
    log.close()
    first, second = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    assert (first["lost"], second["given"]) == (2, "3")
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
