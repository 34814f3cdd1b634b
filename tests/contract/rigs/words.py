"""Control words about links, sent by a stranger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent(name="publisher") as publisher:
        yield publisher


@pytest.fixture
def stranger() -> Iterator[Agent]:
    with Agent(name="stranger") as other:
        yield other


def word(kind: str, link: str, **more: Any) -> dict[str, Any]:
    return {"pzc": kind, "link": link, **more}
