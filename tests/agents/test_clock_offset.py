"""What a handshake tells of a peer, its clock first of all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from pzc import Agent, RemoteProtocolError
from pzc.agents.client.peers import clock_offset, read_hello

from tests.contract.rigs.peers import TIMEOUT


@pytest.mark.parametrize("told", [1000, 1004, 1040])
def test_clocks_that_may_agree_are_taken_to_agree(told: int) -> None:
    assert clock_offset(told, sent_ms=1000, received_ms=1040) == 0


@pytest.mark.parametrize(("told", "offset"), [(999, -21), (1041, 21), (61_020, 60_000), (-58_980, -60_000)])
def test_a_clock_that_cannot_agree_is_measured_from_the_middle_of_the_question(
    told: int, offset: int
) -> None:
    assert clock_offset(told, sent_ms=1000, received_ms=1040) == offset


class Odd(Agent):
    """Tells odd things of itself."""

    told: Mapping[str, Any] = MappingProxyType({})

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **self.told}


@pytest.mark.parametrize("epoch", [math.inf, 1 << 32, -1])
def test_a_peer_whose_start_cannot_be_is_refused_by_name(epoch: float) -> None:
    with Agent() as ours, Odd() as theirs:
        theirs.told = {"epoch": epoch}
        with pytest.raises(RemoteProtocolError, match="answered the handshake incompletely"):
            ours.request(theirs.rep_endpoint, "ping", TIMEOUT)


def test_a_peer_whose_time_cannot_be_is_refused_by_name() -> None:
    told = {"challenge": "c", "agent_id": "a", "epoch": 1, "name": "", "pub_endpoint": ""}
    with pytest.raises(RemoteProtocolError, match="answered the handshake incompletely"):
        read_hello("tcp://127.0.0.1:1", {"challenge": "c"}, {**told, "time_ms": 10**400}, 0, "a", "")


def test_what_a_peer_can_read_may_be_told_oddly() -> None:
    with Agent() as ours, Odd() as theirs:
        theirs.told = {"serializers": 5, "suites": 5}
        assert ours.request(theirs.rep_endpoint, "ping", TIMEOUT) == "pong"
