"""The house only gets smaller: ceilings of lines sink, and lists of exceptions lose names."""

from __future__ import annotations

import ast
import itertools
import subprocess
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests import ratchet
from tests.ratchet import LAYERS, Class

ROOT = Path(__file__).resolve().parent.parent
EXCEPTIONS = "tests/exceptions.toml"

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the history of the budget is in git"),
]


def table(file: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / file).read_text(encoding="utf-8"))


def parsed(code: str) -> list[Class]:
    return ratchet.classes({"a.py": ast.parse(textwrap.dedent(code))})


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    return ratchet.trees(ROOT, LAYERS)


@pytest.fixture(scope="module")
def found(modules: dict[str, ast.Module]) -> dict[str, set[str]]:
    """What breaks each rule today."""
    classes = ratchet.classes(modules)
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    return {
        "class_names_twice": ratchet.names_twice(classes),
        "words_outside_the_glossary": ratchet.words_outside(classes, ratchet.glossary_of(page)),
        "long_signatures": ratchet.long_signatures(modules),
        "rebound_methods": ratchet.rebound_methods(classes),
        "lonely_protocols": ratchet.lonely_protocols(classes),
    }


RULES = sorted(table(EXCEPTIONS))


@pytest.mark.parametrize("rule", RULES)
def test_nothing_new_breaks_a_rule(found: dict[str, set[str]], rule: str) -> None:
    assert not found[rule] - set(table(EXCEPTIONS)[rule])


@pytest.mark.parametrize("rule", RULES)
def test_an_exception_that_is_not_needed_any_more_leaves_the_list(
    found: dict[str, set[str]], rule: str
) -> None:
    assert not set(table(EXCEPTIONS)[rule]) - found[rule]


def test_every_rule_has_a_list_of_exceptions(found: dict[str, set[str]]) -> None:
    assert set(RULES) == set(found)


@pytest.mark.parametrize("folder", table("budget.toml")["lines"])
def test_a_folder_keeps_its_budget(folder: str) -> None:
    budget = table("budget.toml")
    built = {file for part in budget.get("building", {}).values() for file in part["files"]}
    assert ratchet.lines(ROOT, folder, without=built) <= budget["lines"][folder]


@pytest.mark.parametrize("part", table("budget.toml").get("building", {}))
def test_a_part_that_is_being_built_keeps_its_cap(part: str) -> None:
    budget = table("budget.toml")["building"][part]
    assert sum(ratchet.lines(ROOT, file) for file in budget["files"]) <= budget["cap"]


@pytest.mark.parametrize("folder", table("budget.toml")["apart"])
def test_tests_and_pages_keep_their_budget(folder: str) -> None:
    assert ratchet.lines(ROOT, folder, {".py", ".md"}) <= table("budget.toml")["apart"][folder]


def test_every_folder_of_the_package_has_a_budget() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders <= set(table("budget.toml")["lines"])


@pytest.mark.parametrize("file", ["budget.toml", EXCEPTIONS])
def test_ceilings_sink_and_lists_get_shorter_in_every_commit(file: str) -> None:
    versions = [("now", table(file)), *ratchet.earlier(ROOT, file)]
    worse = {
        commit: more
        for (commit, now), (_, before) in itertools.pairwise(versions)
        if (more := ratchet.raised(now, before))
    }
    assert not worse


# The rules themselves


def test_a_name_of_two_classes_is_found() -> None:
    assert ratchet.names_twice(parsed("class Ring: ...\nclass Log:\n    class Ring: ...")) == {"Ring"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("TopicLog", set()), ("Records", set()), ("HTTPLog", set()), ("Roster", {"Roster"})],
)
def test_the_last_word_of_a_class_is_looked_up(name: str, expected: set[str]) -> None:
    assert ratchet.words_outside(parsed(f"class {name}: ..."), {"log", "record"}) == expected


def test_parameters_are_counted_without_self_and_stars() -> None:
    code = """
        class Client:
            def __init__(self, a, b, c, d, e, *rest, f, **more): ...
            def call(self, a, b, c, d, e, f, *, g=1): ...
    """
    assert ratchet.long_signatures({"a.py": ast.parse(textwrap.dedent(code))}) == {"Client.call"}


def test_a_method_that_a_constructor_replaces_is_found_with_its_base() -> None:
    code = """
        class Base:
            def send(self): ...
            @property
            def place(self): ...
        class Client(Base):
            def __init__(self, send):
                self.send = send
                self.other = 1
    """
    assert ratchet.rebound_methods(parsed(code)) == {"Client.send"}


PAIR = """
    class Carrier(Protocol):
        name: str
        def send(self, data): ...
    class Base:
        def __init__(self): self.name = "tcp"
    class Tcp(Base):
        def send(self, data): ...
"""


def test_a_protocol_of_one_implementation_is_found() -> None:
    assert ratchet.lonely_protocols(parsed(PAIR)) == {"Carrier"}


def test_a_protocol_of_two_implementations_is_fine() -> None:
    assert not ratchet.lonely_protocols(parsed(textwrap.dedent(PAIR) + "class Unix(Tcp): ..."))


def test_the_nouns_of_a_glossary_stand_at_the_heads_of_its_lines() -> None:
    assert ratchet.glossary_of("| noun | meaning |\n|---|---|\n| log, Ring | bytes | of a topic |") >= {
        "log",
        "ring",
    }


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        ({"lines": {"shm": 5}}, {"lines": {"shm": 5}}, []),
        ({"lines": {"shm": 6}}, {"lines": {"shm": 5}}, ["lines.shm: 5 became 6"]),
        ({"twice": ["A"]}, {"twice": ["A", "B"]}, []),
        ({"twice": ["A", "C"]}, {"twice": ["A"]}, ["twice: C"]),
    ],
)
def test_what_became_worse_is_named(now: Any, before: Any, expected: list[str]) -> None:
    assert ratchet.raised(now, before) == expected


def test_lines_are_those_of_code(tmp_path: Path) -> None:
    (tmp_path / "shm").mkdir()
    (tmp_path / "shm" / "ring.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "shm" / "log.c").write_text("int x;\n")
    (tmp_path / "shm" / "notes.md").write_text("no code\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert ratchet.lines(tmp_path, "shm") == 3
