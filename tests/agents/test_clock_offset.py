"""What a handshake tells of a peer's clock."""

from __future__ import annotations

import pytest

from pzc.agents.client.peers import clock_offset


@pytest.mark.parametrize("told", [1000, 1004, 1040])
def test_clocks_that_may_agree_are_taken_to_agree(told: int) -> None:
    assert clock_offset(told, sent_ms=1000, received_ms=1040) == 0


@pytest.mark.parametrize(("told", "offset"), [(999, -21), (1041, 21), (61_020, 60_000), (-58_980, -60_000)])
def test_a_clock_that_cannot_agree_is_measured_from_the_middle_of_the_question(
    told: int, offset: int
) -> None:
    assert clock_offset(told, sent_ms=1000, received_ms=1040) == offset
