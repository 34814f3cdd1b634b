from __future__ import annotations

import pytest

from pzc.agents.calling.peers import Peer, is_direct, reachable
from pzc.protocol.frames import PZC01


@pytest.mark.parametrize(
    ("advertised", "reached", "usable"),
    [
        ("tcp://0.0.0.0:5", "tcp://10.0.0.7:1", "tcp://10.0.0.7:5"),
        ("tcp://*:5", "tcp://lab-a:1", "tcp://lab-a:5"),
        ("tcp://[::]:5", "tcp://[fd00::7]:1", "tcp://[fd00::7]:5"),
        ("tcp://[::]:5", "tcp://10.0.0.7:1", "tcp://10.0.0.7:5"),
        ("tcp://127.0.0.1:5", "tcp://10.0.0.7:1", "tcp://10.0.0.7:5"),
        ("tcp://[::1]:5", "tcp://[fd00::7]:1", "tcp://[fd00::7]:5"),
        ("tcp://localhost:5", "tcp://lab-a:1", "tcp://lab-a:5"),
    ],
)
def test_an_endpoint_that_nobody_could_dial_gets_the_host_by_which_its_agent_was_reached(
    advertised: str, reached: str, usable: str
) -> None:
    assert reachable(advertised, reached) == usable


@pytest.mark.parametrize(
    ("advertised", "reached"),
    [
        ("tcp://127.0.0.1:5", "tcp://127.0.0.1:1"),
        ("tcp://127.0.0.1:5", "tcp://localhost:1"),
        ("tcp://127.0.0.1:5", "tcp://[::1]:1"),
        ("tcp://127.0.0.1:5", "ipc:///tmp/a"),
        ("tcp://10.0.0.8:5", "tcp://10.0.0.7:1"),
        ("ipc:///tmp/a", "tcp://10.0.0.7:1"),
        ("inproc://a", "tcp://10.0.0.7:1"),
        ("", "tcp://10.0.0.7:1"),
    ],
)
def test_any_other_endpoint_stays_as_it_was_told(advertised: str, reached: str) -> None:
    assert reachable(advertised, reached) == advertised


@pytest.mark.parametrize(
    ("own", "reached", "direct"),
    [
        ("tcp://0.0.0.0:5", "tcp://10.0.0.7:5", True),
        ("tcp://[::]:5", "tcp://[fd00::7]:5", True),
        ("ipc:///tmp/a", "ipc:///tmp/a", True),
        ("tcp://0.0.0.0:5", "tcp://10.0.0.7:6", False),
        ("ipc:///tmp/a", "tcp://10.0.0.7:5", False),
    ],
)
def test_a_peer_at_another_port_than_its_own_stands_behind_a_forwarder(
    own: str, reached: str, direct: bool
) -> None:
    assert is_direct(Peer(reached, PZC01, "", 0, "", "", 0, {"rep_endpoint": own})) is direct
