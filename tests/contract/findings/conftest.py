"""What tests of several sections stand on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pzc import Agent


@pytest.fixture
def agents() -> Iterator[tuple[Agent, Agent]]:
    """A publisher and a reader."""
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        yield publisher, reader
