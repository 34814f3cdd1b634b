"""What a command says of an agent that does not answer, and for how long it waits."""

from __future__ import annotations

import argparse
import socket
import time

import pytest

from pzc import Server
from pzc.testing import Running

from tests.contract.rigs.console import Console
from tests.contract.rigs.endpoints import free_endpoint


@pytest.mark.parametrize("words", ["info N", "get N.voltage", "running N", "watch N/changed", "ping N"])
def test_where_nothing_listens_a_command_ends_soon_and_says_so(console: Console, words: str) -> None:
    endpoint, began = free_endpoint(), time.monotonic()
    outcome = console(*words.replace("N", endpoint, 1).split())
    assert (outcome.status, outcome.out) == (1, "")
    assert time.monotonic() - began < 20.0  # of the 30 that are usual
    assert f"PeerLost: nothing listens at {endpoint}: connection refused; start the server" in outcome.err
    assert "with --timeout 60 it is waited for" in outcome.err


def test_who_asked_for_time_is_told_why_nobody_answers_and_waits_for_who_comes(console: Console) -> None:
    endpoint = free_endpoint()

    def meanwhile(running: Running) -> None:
        while f"nothing listens at {endpoint}" not in running.err:
            assert not running.wait(0.05)
        with Server(argparse.Namespace(voltage=1.5), endpoint, discovery=False):
            assert running.wait(50.0)

    outcome = console("get", f"{endpoint}.voltage", "--timeout", "60", meanwhile=meanwhile)
    assert (outcome.status, outcome.out) == (0, "1.5\n")
    assert "; still waiting, 60 s in all" in outcome.err


def test_a_program_that_says_nothing_is_told_from_nobody(console: Console) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        endpoint = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        outcome = console("info", endpoint, "--timeout", "0.5")
    assert outcome.status == 1
    assert f"{endpoint} takes connections, but no agent answers" in outcome.err
