"""Worker processes for every test that asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agents.links_rig import Forge, Workers


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()


@pytest.fixture
def workers(forge: Forge) -> Iterator[Workers]:
    with Workers(forge) as made:
        yield made
