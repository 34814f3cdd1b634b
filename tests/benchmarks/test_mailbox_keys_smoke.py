"""The benchmark of many keys runs; how fast or how large anything is plays no part."""

from __future__ import annotations

import pytest

from benchmarks.mailbox_keys import HEADINGS, measure, row

pytestmark = [pytest.mark.once, pytest.mark.slow]


@pytest.mark.parametrize("one", [False, True], ids=["one subscription each", "one subscription"])
def test_keys_share_their_connections_get_their_messages_and_leave_nothing(one: bool) -> None:
    found = measure(100, one, "tcp", traced=False)
    assert 1 <= found.connections <= 2
    assert found.entries == 0
    assert len(row(found, found)) == len(HEADINGS)
