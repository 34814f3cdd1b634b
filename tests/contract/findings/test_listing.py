"""The catalogue is whole: every line has a test, or says why none can be written."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.contract.findings.catalogue import LINES, UNSHOWN

FOLDER = Path(__file__).resolve().parent


def shown() -> set[str]:
    """Lines for which a test stands anywhere in the contract."""
    found: set[str] = set()
    for path in FOLDER.parent.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "finding":
                found.update(str(each.value) for each in node.args[:1] if isinstance(each, ast.Constant))
    return found


def test_what_is_said_to_be_unshown_has_a_reason_and_no_test() -> None:
    assert UNSHOWN.keys() <= LINES.keys()
    assert all(len(reason.split()) > 3 for reason in UNSHOWN.values())
    assert not UNSHOWN.keys() & shown()
