"""One subscription to several keys, on every plane and with every policy."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pzc.agents.notifications.keys import checked


@pytest.mark.parametrize("keys", [("a", "b"), {"a": 1, "b": 2}, iter("ab"), {"a", "b"}])
def test_keys_may_come_in_any_collection(keys: Iterable[str]) -> None:
    assert checked(keys) == {"a", "b"}
