"""``pzc stubs`` against a real server, without and with a key."""

from __future__ import annotations

import ast

import pytest

from pzc.testing import command

from tests.contract.rigs.console import Console


def test_the_stub_is_printed(either: Console) -> None:
    outcome = either("stubs", "psu")
    assert (outcome.status, outcome.err) == (0, "")
    classes = [node for node in ast.parse(outcome.out).body if isinstance(node, ast.ClassDef)]
    assert [node.name for node in classes] == ["Supply"]
    members = [node.name for node in classes[0].body if isinstance(node, ast.FunctionDef)]
    assert {"voltage", "trace", "settings", "changed", "resource"} <= set(members)


def test_the_file_holds_what_would_be_printed(bench: Console) -> None:
    outcome = bench("stubs", "psu", "--output", "psu.pyi")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")
    assert (bench.folder / "psu.pyi").read_text(encoding="utf-8") == bench("stubs", "psu").out


def test_the_stub_as_json(bench: Console) -> None:
    assert bench("stubs", "psu", "--json").json == {"stub": bench("stubs", "psu").out}


def test_a_file_that_cannot_be_written_is_status_1(bench: Console) -> None:
    outcome = bench("stubs", "psu", "--output", "no/such/folder.pyi")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.startswith("pzc: FileNotFoundError: ")


@pytest.mark.needs("posix")
def test_a_stub_for_which_a_disk_has_no_room_leaves_the_one_before(bench: Console) -> None:
    import resource

    written = bench.folder / "psu.pyi"
    written.write_text("before\n", encoding="utf-8")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        outcome = bench("stubs", "psu", "--output", "psu.pyi")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert outcome.status == 1
    assert outcome.err.startswith("pzc: OSError: ")
    assert {path.name: path.read_text(encoding="utf-8") for path in bench.folder.glob("*psu.pyi*")} == {
        "psu.pyi": "before\n"
    }


def test_printing_and_writing_at_once_is_status_2() -> None:
    outcome = command("stubs", "psu", "--output", "psu.pyi", "--json")
    assert outcome.status == 2
    assert outcome.err.startswith("pzc: stubs: --json prints the stub and --output writes it")
