"""The table of rates accounts for what it publishes; how fast anything is plays no part."""

from __future__ import annotations

import secrets
from contextlib import ExitStack

import pytest

from benchmarks.rates import HEADINGS, Team, cases, row

pytestmark = [pytest.mark.once, pytest.mark.slow]


@pytest.mark.parametrize("size", ["64B", "1MiB"])
def test_what_is_published_by_each_policy_over_each_carrier_arrives_or_is_told_as_lost(size: str) -> None:
    with ExitStack() as stack:
        team = Team(stack, secrets.token_hex(16))
        found = {case: team.measure(case, 0.05) for case in cases([size])}
    assert len(found) == 13
    assert {case: each.missing for case, each in found.items()} == dict.fromkeys(found, 0)
    assert all(each.published > 0 and each.received > 0 for each in found.values())
    assert all(len(row(case, each)) == len(HEADINGS) for case, each in found.items())
