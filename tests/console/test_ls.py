"""How ``pzc ls`` knows names, and ``pzc registry`` where it is reached."""

from __future__ import annotations

import pytest

from pzc.console.ls import names_of
from pzc.discovery.records import Entry
from pzc.transport.endpoints import reached_here


def test_every_way_to_write_a_name_is_known() -> None:
    entry = Entry("service", "/robot1/psu", "sim")
    assert set(names_of([entry], "robot1")) == {"/robot1/psu", "robot1/psu", "@sim@/robot1/psu", "psu"}
    assert set(names_of([entry], "")) == {"/robot1/psu", "robot1/psu", "@sim@/robot1/psu"}


@pytest.mark.parametrize(
    ("bound", "reached"),
    [
        ("tcp://127.0.0.1:10318", "tcp://127.0.0.1:10318"),
        ("tcp://0.0.0.0:10318", "tcp://127.0.0.1:10318"),
        ("tcp://[::]:10318", "tcp://127.0.0.1:10318"),
        ("tcp://*:10318", "tcp://127.0.0.1:10318"),
        ("tcp://10.0.0.2:10318", "tcp://10.0.0.2:10318"),
        ("tcp://127.0.0.1:0", ""),
        ("ipc:///run/registry", ""),
    ],
)
def test_where_this_machine_reaches_a_registry(bound: str, reached: str) -> None:
    assert reached_here(bound) == reached
