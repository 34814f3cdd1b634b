"""Circles: files of the package that import each other, directly or through others.

Every import counts, also one for type checking and one inside a function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, set[str]]


def graph_of(root: Path, files: Iterable[Path]) -> dict[str, set[str]]:
    """What each file imports of the others.

    Args:
        root: of the package.
        files: of the package, relative to its root.
    """
    modules = {_module(path): str(path) for path in files}
    return {
        file: {
            modules[name]
            for name in _imported(module, file, (root / file).read_text(encoding="utf-8"), modules)
            if modules[name] != file
        }
        for module, file in modules.items()
    }


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(module: str, file: str, source: str, modules: Mapping[str, str]) -> Iterator[str]:
    package = module if file.endswith("__init__.py") else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue  # inside the package every import is relative
        parts = package.split(".") if package else []
        base = ".".join(parts[: len(parts) - node.level + 1] + ([node.module] if node.module else []))
        for alias in node.names:
            name = f"{base}.{alias.name}".strip(".")
            if name in modules or base in modules:
                yield name if name in modules else base


def circles(graph: Graph) -> list[list[str]]:
    """Files that can reach each other, the largest circle first; none for a graph without circles."""
    reached = {file: _reached(graph, file) for file in graph}
    found = {
        tuple(sorted({file, *(other for other in reached[file] if file in reached[other])}))
        for file in graph
        if file in reached[file]
    }
    return sorted(map(list, found), key=len, reverse=True)


def _reached(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for file in graph[waiting.pop()] - found:
            found.add(file)
            waiting.append(file)
    return found
