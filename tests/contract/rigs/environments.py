"""What a query passes on to Spark's processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def own_environment(spark: Any) -> Iterator[None]:
    """What a query passes on to Spark's processes is for one test."""
    before = dict(spark.sparkContext.environment)
    yield
    spark.sparkContext.environment.clear()
    spark.sparkContext.environment.update(before)
