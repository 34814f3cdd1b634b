"""pyarrow, as everything here imports it; where it is missing, the error says how to install it."""

from __future__ import annotations

from typing import Any

from . import missing

try:
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.parquet as pq
except ImportError as exc:
    raise missing("pyarrow") from exc

pc: Any = pyarrow.compute
"""Its functions are made when it is imported, so that no type checker knows them."""

__all__ = ["pa", "pc", "pq"]
