from __future__ import annotations

from pathlib import Path

from pzc.agents.server.audit_file import AuditFile


def test_what_could_not_be_written_is_not_kept_by_the_error(tmp_path: Path) -> None:
    """The frames of its traceback would hold the lines until the collector runs."""
    path = tmp_path / "audit.jsonl"
    file = AuditFile(str(path), 1 << 20, 5)
    path.unlink()
    path.mkdir()
    done, error = file.append([b"{}\n"])
    file.close()
    assert done == 0
    assert isinstance(error, IsADirectoryError)
    assert error.__traceback__ is None
