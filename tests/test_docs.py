"""The manual: complete, without dead links, and with snippets that are Python and TOML."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

import pzc
from pzc.lab.file import LabTable, PipelineTable, RecorderTable, RegistryTable, ServerTable
from pzc.protocol import kinds
from pzc.transport.settings import KNOWN

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
SNIPPET = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.once


class Supply:
    """What pages use."""

    def __init__(self) -> None:
        self.voltage_changed = pzc.Signal("volts")
        self._volts = 0.0

    @property
    def voltage(self) -> float:
        return self._volts

    @voltage.setter
    def voltage(self, volts: float) -> None:
        self._volts = volts
        self.voltage_changed.emit(volts)


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def ids(path: Path) -> str:
    return path.name


def anchors(page: Path) -> set[str]:
    text = page.read_text(encoding="utf-8")
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {*re.findall(r'<a id="([^"]+)">', text)} | {
        re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads
    }


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_snippet_of_a_page_can_be_read(page: Path) -> None:
    for kind, code in SNIPPET.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            ast.parse(code)
        elif kind == "toml":
            tomllib.loads(code)


def test_every_public_name_stands_on_a_page_of_names() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", text_of("api.md") + text_of("errors.md"), re.MULTILINE))
    assert told == set(pzc.__all__)


def test_what_an_agent_has_of_its_parts_is_told_with_its_arguments() -> None:
    page = text_of("details.md")
    shown = re.findall(r"[\w]+", re.findall(r"::: pzc\.Agent\n.*\n +members: \[(.*)\]", page)[0])
    theirs = {
        name
        for name in dir(pzc.Agent)
        if inspect.isfunction(made := getattr(pzc.Agent, name)) and not made.__qualname__.startswith("Agent.")
    }
    assert {"publish", "subscribe"} <= theirs
    assert not theirs & set(shown)
    assert theirs & set(re.findall(r"heading: pzc\.Agent\.(\w+)", page)) >= {
        "publish",
        "subscribe",
        "request",
        "loan",
    }


def test_every_variable_stands_on_the_page_of_settings() -> None:
    told = set(re.findall(r"`(PZC_\w+)`", text_of("settings.md")))
    assert told >= {*KNOWN, "PZC_COMPILED"}


def test_every_kind_of_value_stands_on_its_page() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", text_of("values.md"), re.MULTILINE))
    # A reference is one of the kinds `remote` once it has arrived.
    assert told >= {*vars(kinds)["_BY_NAME"]} - {"reference"}


def test_every_key_of_a_lab_file_stands_on_its_page() -> None:
    told = set(re.findall(r"`(\w+)`", text_of("lab.md")))
    tables = (LabTable, ServerTable, RecorderTable, PipelineTable, RegistryTable)
    assert told >= {field.name for table in tables for field in msgspec.structs.fields(table)}


def test_every_page_is_in_the_manual() -> None:
    listed = set(re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed >= {page.name for page in PAGES[1:]}


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len(PAGES[0].read_text(encoding="utf-8").splitlines()) <= 80


@pytest.mark.parametrize("key", ["", "a-long-shared-secret-of-the-lab"], ids=["unsigned", "signed"])
def test_the_peer_in_plain_pyzmq_is_understood(tmp_path: Path, key: str) -> None:
    peer = tmp_path / "peer.py"
    (code,) = (code for kind, code in SNIPPET.findall(text_of("wire.md")) if kind == "python")
    peer.write_text(code, encoding="utf-8")
    with pzc.Server(Supply(), protocol=pzc.Protocol(key, "json")) as server:
        told = subprocess.run(
            [sys.executable, peer, server.rep_endpoint], env=os.environ | {"PZC_KEY": key}, capture_output=True,
            text=True, timeout=30, check=False,
        )  # fmt: skip
    assert told.stdout.splitlines() == [
        "['PSMessage', 'return', None]",
        "['PSMessage', 'return', 2.5]",
        "['voltage_changed', '1'] json",
    ], told.stderr
