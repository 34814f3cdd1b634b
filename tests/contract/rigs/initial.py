"""A publisher that keeps its last notification, and a reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pzc import (
    Agent,
    Notification,
)

from tests.contract.rigs.pairs import pair
from tests.contract.rigs.peers import KEY


@pytest.fixture(params=["signed", "unsigned"])
def agents(request: pytest.FixtureRequest) -> Iterator[tuple[Agent, Agent]]:
    with pair(KEY if request.param == "signed" else "") as both:
        both[0].advertise("t", keep_last=True)
        yield both


def seen(notification: Notification) -> tuple[int, Any, bool]:
    return notification.sequence, notification.content, notification.initial
