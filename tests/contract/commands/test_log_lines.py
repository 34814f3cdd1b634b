"""Lines of logs stay lines, whatever text a peer, a driver or an exception gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.rigs.console import Console
from tests.contract.rigs.labs import Bench

FORGED = "two\npzc: forged\r\x1b[2J\x9b\u2028\u2029"
LOUD = f"""
import logging
FORGED = {FORGED!r}

class Loud:
    def __init__(self):
        logging.getLogger("driver").warning("%s", FORGED)
        try:
            raise ValueError(FORGED)
        except ValueError:
            logging.getLogger("driver").exception("%s", FORGED)
        print(FORGED.partition("\\n")[2])
        raise ValueError(FORGED)
"""


def steering(text: str) -> list[str]:
    """What steers a terminal in a text, or breaks a line of it other than by its end."""
    return [character for character in text if not (character.isprintable() or character in "\n\t")]


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_no_text_begins_a_line_of_the_log(console: Console, folder: Path, debug: tuple[str, ...]) -> None:
    (folder / "loud.py").write_text(LOUD, encoding="utf-8")
    err = console("serve", "loud:Loud", *debug).err
    assert "forged" in err
    assert [line for line in err.splitlines() if not line.startswith(("pzc: ", "     "))] == []
    assert [line for line in err.splitlines() if line.startswith("pzc: forged")] == []
    assert steering(err) == []


def test_a_remote_error_with_debug_begins_no_line(bench: Console) -> None:
    err = bench("call", "psu.scream", "--debug").err
    assert [line for line in err.splitlines() if line.startswith("lines ")] == []
    assert steering(err) == []


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    try:
        yield made
    finally:
        made.run("down")


@pytest.mark.needs("posix")
def test_the_log_of_a_process_of_a_lab_steers_no_terminal(lab: Bench) -> None:
    (lab.folder / "loud.py").write_text(LOUD, encoding="utf-8")
    lab.write('[server.loud]\nobject = "loud:Loud"\nrestart = "never"\n')
    lab.run("up")
    (log,) = lab.folder.glob("state/**/loud.log")
    text = log.read_text(encoding="utf-8")
    assert "forged" in text
    assert steering(text) == []
