"""What a test of the contract may touch: public names of pzc, nothing private, nothing patched.

Run as a program it prints every place that touches more, and fails.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pzc
import pzc.aio
import pzc.protocol
import pzc.qt
import pzc.testing

FOLDER = Path(__file__).resolve().parent
PUBLIC = {
    "pzc": {*pzc.__all__, "__all__", "__version__", "protocol", "testing"},
    "pzc.aio": set(pzc.aio.__all__),
    "pzc.qt": set(pzc.qt.__all__),
    "pzc.protocol": set(pzc.protocol.__all__),
    "pzc.testing": {*pzc.testing.__all__, "journals"},
}
"""Modules that may be imported, and what of them may be used."""

OPEN_MODULES = {"pzc.testing.journals"}
"""Helpers for tests that are imported by name because they need an extra."""

UNDERSCORED = {"_proxy_stop_server", "_proxy_stop_me", "_proxy_instantiate"}
"""Public although their names begin with an underscore: the original's proxies have them."""

FOREIGN = {"os", "sys", "ctypes", "socket", "threading"}
"""Modules of the standard library whose documented names begin with an underscore, such as ``os._exit``."""

HELPERS = ("tests.contract", "tests.conftest")
CODE = re.compile(r"^\s*(?:from|import)\s+(?:pzc|tests)\b.*$", re.MULTILINE)


class Reader(ast.NodeVisitor):
    """Collects the sentences that a file earns."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._module(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if module in OPEN_MODULES:
            return
        self._module(node, module)
        for alias in node.names if module in PUBLIC else ():
            if alias.name not in PUBLIC[module]:
                self._say(node, f"{module}.{alias.name} is not public")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name, owner = node.attr, node.value
        base = owner.id if isinstance(owner, ast.Name) else ""
        private = name.startswith("_") and not (name.startswith("__") and name.endswith("__"))
        if private and name not in UNDERSCORED and base not in FOREIGN | {"self", "cls"}:
            self._say(node, f"{ast.unparse(node)} is private")
        if base == "pzc" and name not in PUBLIC["pzc"] | {"aio"}:
            self._say(node, f"pzc.{name} is not public")
        if name == "setattr" and base == "monkeypatch":
            self._say(node, "monkeypatch.setattr patches a module")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Code for other processes stands in texts."""
        for line in CODE.findall(node.value) if isinstance(node.value, str) else ():
            try:
                tree = ast.parse(line.strip())
            except SyntaxError:
                continue  # a sentence that begins like an import
            reader = Reader()
            reader.visit(tree)
            self.found += [(node.lineno, sentence) for _, sentence in reader.found]

    def _module(self, node: ast.stmt, name: str) -> None:
        top = name.partition(".")[0]
        if (top == "pzc" and name not in PUBLIC.keys() | OPEN_MODULES) or name.startswith("unittest.mock"):
            self._say(node, f"{name} may not be imported")
        elif top == "tests" and not name.startswith(HELPERS):
            self._say(node, f"{name} is a helper of tests that know the inside")

    def _say(self, node: ast.expr | ast.stmt, sentence: str) -> None:
        self.found.append((node.lineno, sentence))


def violations(code: str) -> list[tuple[int, str]]:
    """Line and sentence for everything in a file's text that the contract may not touch."""
    reader = Reader()
    reader.visit(ast.parse(code))
    return reader.found


def broken(folder: Path = FOLDER) -> Iterator[str]:
    """A line for each place in a folder."""
    for path in sorted(folder.rglob("*.py")):
        if path != Path(__file__).resolve():
            for line, sentence in violations(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(folder.parent.parent)}:{line}: {sentence}"


if __name__ == "__main__":
    places = list(broken())
    print("\n".join(places) or "The contract knows public names only.")  # noqa: T201
    sys.exit(bool(places))
