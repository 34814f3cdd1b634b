from __future__ import annotations

import pytest

from pzc.discovery.reach import Reach, seen_from

LOOPBACK = Reach(1, ("127.0.0.1", "::1"), loopback=True)
ETHERNET = Reach(2, ("10.0.0.7", "fe80::1", "fe80::2%eth0", "2001:db8::7"))


@pytest.mark.parametrize(
    ("bound", "here", "there"),
    [
        ("tcp://127.0.0.1:5555", ["tcp://127.0.0.1:5555"], []),
        ("tcp://[::1]:5555", ["tcp://[::1]:5555"], []),
        ("tcp://localhost:5555", ["tcp://localhost:5555"], []),
        ("tcp://0.0.0.0:5555", ["tcp://127.0.0.1:5555"], ["tcp://10.0.0.7:5555"]),
        ("tcp://*:5555", ["tcp://127.0.0.1:5555"], ["tcp://10.0.0.7:5555"]),
        (
            "tcp://[::]:5555",
            ["tcp://127.0.0.1:5555", "tcp://[::1]:5555"],
            ["tcp://10.0.0.7:5555", "tcp://[2001:db8::7]:5555"],
        ),
        ("tcp://10.0.0.7:5555", ["tcp://10.0.0.7:5555"], ["tcp://10.0.0.7:5555"]),
        ("tcp://192.168.1.7:5555", ["tcp://192.168.1.7:5555"], []),
        ("tcp://rack3:5555", ["tcp://rack3:5555"], ["tcp://rack3:5555"]),
        ("ipc:///run/psu", ["ipc:///run/psu"], []),
        ("inproc://psu", [], []),
    ],
)
def test_an_endpoint_is_announced_where_it_can_be_used(bound: str, here: list[str], there: list[str]) -> None:
    assert [list(seen_from([bound], reach)) for reach in (LOOPBACK, ETHERNET)] == [here, there]


def test_an_address_is_announced_once() -> None:
    assert seen_from(["tcp://10.0.0.7:1", "tcp://0.0.0.0:1", "tcp://0.0.0.0:2"], ETHERNET) == (
        "tcp://10.0.0.7:1",
        "tcp://10.0.0.7:2",
    )
