"""What `make check` counts so that the house only gets smaller: lines of each folder, and signs of a structure that is hard to own.

Each rule reads syntax trees and answers with names. ``tests/exceptions.toml`` lists the names that broke a rule when it
began; a list may lose names and never gains one. ``budget.toml`` holds the ceilings of lines.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

LAYERS = ("protocol", "delivery", "shm", "discovery", "transport", "agents")
CODE = {".py", ".pyi", ".c", ".h", ".js"}
MOST_PARAMETERS = 6
Function = ast.FunctionDef | ast.AsyncFunctionDef

OUTSIDE_OF_THE_GLOSSARY = {"protocol/errors.py"}
"""The tree of errors, which ``docs/errors.md`` explains by name."""

PUBLIC_SIGNATURES = {
    "Protocol.__init__", "Protocol.format", "Agent.__init__", "Agent.advertise", "Agent.subscribe",
    "Agent.publish", "Server.__init__", "Server.serve_in_thread", "Server.serve_in_process", "Proxy.__init__",
}  # fmt: skip
"""Signatures that users rely on, and that may be longer than `MOST_PARAMETERS`."""


class Class(NamedTuple):
    """A class of the package and the file that defines it, relative to the root."""

    file: str
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """Without its module."""
        return self.node.name

    @property
    def bases(self) -> list[str]:
        """Names of the base classes, without modules and type arguments."""
        return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in self.node.bases]

    @property
    def is_protocol(self) -> bool:
        """True for a class that only describes others, by `typing.Protocol`."""
        return "Protocol" in self.bases

    def functions(self) -> list[Function]:
        """Functions of the class body."""
        return [each for each in self.node.body if isinstance(each, Function)]

    def methods(self) -> set[str]:
        """Names of methods that are called, thus without properties and other decorated functions."""
        return {each.name for each in self.functions() if not each.decorator_list}

    def names(self) -> set[str]:
        """Names of methods, properties, annotated fields and attributes that any method sets."""
        fields = {
            each.target.id
            for each in self.node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
        assigned = {
            target.id
            for each in self.node.body
            if isinstance(each, ast.Assign)
            for target in each.targets
            if isinstance(target, ast.Name)
        }
        return {each.name for each in self.functions()} | fields | assigned | _set_on_self(self.functions())


def _set_on_self(functions: Iterable[Function]) -> set[str]:
    return {
        node.attr
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def trees(root: Path, folders: Iterable[str]) -> dict[str, ast.Module]:
    """Syntax trees of all Python files of some folders, by path relative to the root."""
    paths = (path for folder in folders for path in sorted((root / folder).rglob("*.py")))
    return {str(path.relative_to(root)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def classes(modules: dict[str, ast.Module]) -> list[Class]:
    """All classes, nested ones included."""
    return [
        Class(file, node)
        for file, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]


def names_twice(found: Iterable[Class]) -> set[str]:
    """Names that several classes have."""
    counted = Counter(each.name for each in found)
    return {name for name, count in counted.items() if count > 1}


def words_outside(found: Iterable[Class], glossary: set[str]) -> set[str]:
    """Classes whose last word is not a noun of the glossary; a plural counts as its singular."""
    outside = set()
    for each in found:
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", each.name)
        last = words[-1].lower() if words else each.name.lower()
        if each.file not in OUTSIDE_OF_THE_GLOSSARY and not {last, last.removesuffix("s")} & glossary:
            outside.add(each.name)
    return outside


def long_signatures(modules: dict[str, ast.Module]) -> set[str]:
    """Functions with more than `MOST_PARAMETERS` parameters, ``self`` and starred ones apart."""
    return {
        name
        for tree in modules.values()
        for name, function in _functions(tree, "")
        if _parameters(function) > MOST_PARAMETERS and name not in PUBLIC_SIGNATURES
    }


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{child.name}.")
        else:
            yield from _functions(child, prefix)


def _parameters(function: Function) -> int:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([each for each in every if each.arg not in ("self", "cls")])


def rebound_methods(found: Iterable[Class]) -> set[str]:
    """Methods that a constructor replaces on its instance."""
    by_name = {each.name: each for each in found}
    rebound = set()
    for each in by_name.values():
        methods = {name for base in _ancestry(each, by_name) for name in base.methods()}
        constructors = [function for function in each.functions() if function.name == "__init__"]
        rebound |= {f"{each.name}.{name}" for name in _set_on_self(constructors) & methods}
    return rebound


def _ancestry(of: Class, by_name: dict[str, Class]) -> list[Class]:
    line, waiting = [], [of]
    while waiting:
        each = waiting.pop()
        line.append(each)
        waiting += [by_name[base] for base in each.bases if base in by_name and by_name[base] not in line]
    return line


def lonely_protocols(found: Iterable[Class]) -> set[str]:
    """Protocols that at most one class implements, by the names of its members."""
    every = list(found)
    by_name = {each.name: each for each in every}
    names = {
        each.name: {name for base in _ancestry(each, by_name) for name in base.names()} for each in every
    }
    implementations: defaultdict[str, int] = defaultdict(int)
    protocols = [each for each in every if each.is_protocol]
    for protocol in protocols:
        wanted = protocol.names()
        for each in every:
            if not each.is_protocol and wanted <= names[each.name]:
                implementations[protocol.name] += 1
    return {each.name for each in protocols if implementations[each.name] < 2}


def glossary_of(page: str) -> set[str]:
    """Nouns that a page defines, one at the head of each line of its table."""
    return {
        word.lower()
        for line in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
        for word in line.split(", ")
    }


def lines(root: Path, folder: str, suffixes: Iterable[str] = CODE, without: Iterable[str] = ()) -> int:
    """Lines of the tracked files of a folder, or of one file, that have one of the suffixes, but for some files."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", folder],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = set(listed.stdout.split("\0")) - set(without)
    paths = {root / name for name in names if Path(name).suffix in set(suffixes)}
    return sum(path.read_bytes().count(b"\n") for path in paths if path.is_file())


def earlier(root: Path, file: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a TOML file held in each commit of this branch that changed it, newest first, with its short id."""
    log = subprocess.run(
        ["git", "log", "--first-parent", "--format=%h", "--", file],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for commit in log.stdout.split():
        shown = subprocess.run(
            ["git", "show", f"{commit}:{file}"], cwd=root, capture_output=True, text=True, check=False
        )
        if shown.returncode == 0:
            yield commit, tomllib.loads(shown.stdout)


def raised(now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Numbers that are higher now than before, and names that a list has gained; nested tables are compared as well."""
    worse = []
    for key, value in now.items():
        old = before.get(key)
        if isinstance(value, dict):
            worse += [f"{key}.{each}" for each in raised(value, old or {})]
        elif isinstance(value, list):
            worse += [f"{key}: {each}" for each in set(value) - set(old if old is not None else value)]
        elif isinstance(value, int) and isinstance(old, int) and value > old:
            worse.append(f"{key}: {old} became {value}")
    return sorted(worse)
