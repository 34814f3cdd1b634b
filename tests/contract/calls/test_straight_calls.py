"""A call is a straight line: few functions of the package run for it, at both ends together."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pzc

PACKAGE = str(Path(str(getattr(find_spec("pzc"), "origin", ""))).parent)
KEY = "a key of thirty-two characters."


class Adder:
    def add(self, a: int, b: int) -> int:
        return a + b


class Counted:
    """Functions of the package that threads of this process begin, while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.names: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if (
            self.on
            and event == "call"
            and code.co_filename.startswith(PACKAGE)
            and code.co_filename != __file__
        ):
            self.names.append(code.co_qualname)


@pytest.fixture
def counted() -> Iterator[Counted]:
    made = Counted()
    threading.setprofile(made)
    yield made
    threading.setprofile(None)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_call_runs_through_few_functions(counted: Counted, transport: str) -> None:
    with (
        pzc.Server(Adder(), protocol=pzc.Protocol(KEY)) as server,
        pzc.Proxy(server.rep_endpoint, protocol=pzc.Protocol(KEY), transport=transport) as adder,
    ):
        fewest = min((functions_of(counted, adder) for _ in range(300)), key=len)
    plain = any(name.startswith("PlainStream") for name in fewest)
    assert len(fewest) <= (45 if plain else 32), " ".join(fewest)


def functions_of(counted: Counted, adder: Any) -> list[str]:
    """Those that one call runs through."""
    counted.names = []
    sys.setprofile(counted)
    counted.on = True
    adder.add(1, 2)
    counted.on = False
    sys.setprofile(None)
    return counted.names
