"""The Stream of this process: compiled, unless that is off, was not built, or finds no libcrypto."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from .plain_stream import PlainStream


def _choose() -> tuple[Any, str]:
    """A class of streams, and what `pzc version` says about it."""
    if os.environ.get("PZC_COMPILED", "1").lower() in ("0", "false", "no", "off"):
        return PlainStream, "plain Python: PZC_COMPILED turned the compiled stream off"
    try:
        module: Any = importlib.import_module(f"{__package__}._stream")
    except ImportError as exc:
        built = "cannot be loaded" if exc.path else "was not built when pzc was installed"
        return PlainStream, f"plain Python: the compiled stream {built}"
    if not module.CRYPTO:
        return PlainStream, "plain Python: the compiled stream found no libcrypto"
    return module.Stream, f"compiled, with {module.CRYPTO}"


if TYPE_CHECKING:
    Stream = PlainStream
    WHICH = ""
else:
    Stream, WHICH = _choose()
