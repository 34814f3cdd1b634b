from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def little_memory() -> Iterator[int]:
    """No file, and so no block, may have more than this many bytes."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = 1 << 20
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
