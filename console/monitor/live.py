"""Live: the newest value of a topic or member, and what it was before. Pure, as `watched`."""

from __future__ import annotations

import base64
import math
import re
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from ...protocol.errors import RemoteError
from ...protocol.lazily import numpy_kind
from ..values import to_line

if TYPE_CHECKING:
    import numpy as np

HISTORY = 600
"""Points that are kept of a numeric value."""

TEXT = 200
"""Characters of a value that are shown."""

DIGEST = 0.1
"""Seconds between two looks at contents that are no plain values: none of these is kept, as an array
may lie in its publisher's memory."""

EXACT = 2**53
"""From here on integers are no floats."""

SIDE = 128
"""Pixels of an image's longer side, at most."""

_UNIT = re.compile(
    r"(?:\bin\s+|[\[(])(?P<unit>%|°C|[munµkMG]?(?:V|A|W|Hz|s|K|Pa|bar|m|Ohm|Ω|F|T|dBm?|ppm|l/min|sccm))(?:[\])]|\b|$)"
)
_WORDS = {
    "volt": "V", "volts": "V", "ampere": "A", "amperes": "A", "amps": "A", "watt": "W", "watts": "W",
    "hertz": "Hz", "second": "s", "seconds": "s", "kelvin": "K", "ohm": "Ω", "ohms": "Ω", "pascal": "Pa",
    "metres": "m", "meters": "m", "percent": "%", "degrees celsius": "°C",
}  # fmt: skip
_SPELT = re.compile(rf"\bin ({'|'.join(_WORDS)})\b", re.IGNORECASE)
_NUMBER = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_RANGE = re.compile(
    rf"{_NUMBER}\s*(?:\.\.|to)\s*{_NUMBER}|[\[(]{_NUMBER}\s*,\s*{_NUMBER}[\])]", re.IGNORECASE
)


def unit_of(doc: str) -> str:
    """The unit that a docstring tells, as ``in volts`` or ``[V]``; empty when it tells none."""
    spelt = _SPELT.search(doc)
    if spelt is not None:
        return _WORDS[spelt[1].lower()]
    found = _UNIT.search(doc)
    return found["unit"] if found is not None else ""


def range_of(doc: str) -> tuple[float, float] | None:
    """Bounds that a docstring tells, as ``0..30``, ``0 to 30`` or ``[0, 30]``; None when it tells none."""
    found = _RANGE.search(doc)
    if found is None:
        return None
    low, high = (float(each) for each in found.groups() if each is not None)
    return (low, high) if -math.inf < low < high < math.inf else None


def number_of(content: object) -> float | None:
    """What can be plotted of a content: a number, or the first of a signal's arguments; else None."""
    if numpy_kind(type(content)) == "generic":
        content = cast("Any", content).item()
    if isinstance(content, list | tuple):
        items = cast("list[object]", content)
        return number_of(items[0]) if len(items) and not isinstance(items[0], list | tuple) else None
    if isinstance(content, bool) or not isinstance(content, int | float):
        return None
    try:
        found = float(content)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _is_exact(content: object) -> bool:
    """Whether a number tells all of a content that is or begins with one."""
    return not isinstance(content, list | tuple) and not (isinstance(content, int) and abs(content) >= EXACT)


def image_of(content: object) -> dict[str, Any] | None:
    """A 2-d array as grey pixels of at most `SIDE` a side; None for anything else."""
    if numpy_kind(type(content)) != "ndarray":
        return None
    array = cast("np.ndarray[Any, Any]", content)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or not array.size:
        return None
    step = -(-max(array.shape) // SIDE)
    small: Any = array[::step, ::step].astype("float64")
    finite = small[abs(small) < math.inf]  # leaves out what is no number, too
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    small[~(abs(small) < math.inf)] = low
    grey = ((small - low) * (255.0 / (high - low) if high > low else 0.0)).astype("uint8")
    return {
        "width": int(grey.shape[1]), "height": int(grey.shape[0]), "low": low, "high": high,
        "shape": list(array.shape), "grey": base64.b64encode(grey.tobytes()).decode(),
    }  # fmt: skip


def _only(content: object) -> object:
    """A signal's only argument by itself; anything else as it is."""
    if isinstance(content, tuple) and len(items := cast("tuple[object, ...]", content)) == 1:
        return items[0]
    return cast("object", content)


class Live:
    """The newest value of one topic or member.

    Attributes:
        points: times and values, the last `HISTORY`.
        count: values taken.
        error: what a read raised; empty while values come.
        error_since: when the first of these came.
        at: when the newest was taken.
        number: that the newest value is, or begins with; None when it is none, or no finite one.
    """

    def __init__(self) -> None:
        self.points: deque[tuple[float, float]] = deque(maxlen=HISTORY)
        self.count = 0
        self.error = ""
        self.error_since = 0.0
        self.at = 0.0
        self.number: float | None = None
        self._exact = True
        self._plain: object = None
        self._text = ""
        self._image: dict[str, Any] | None = None
        self._digested = -math.inf

    def take(self, content: object, now: float) -> None:
        """The next one."""
        self.count += 1
        self.at = now
        if isinstance(content, RemoteError):
            if not self.error:
                self.error_since = now
            self.error = to_line(str(content).removeprefix("builtins."))[1:-1][:TEXT]
            return
        content = _only(content)
        self._exact = _is_exact(content)
        self.error, self.number = "", number_of(content)
        if self.number is not None:
            self.points.append((now, self.number))
        if content is None or isinstance(content, bool | int | float | str):
            self._plain, self._text, self._image = content, "", None
        elif now - self._digested >= DIGEST:
            self._digested, self._plain = now, None
            self._text, self._image = to_line(content)[:TEXT], image_of(content)

    def tell(self, now: float, since: int = 0) -> dict[str, Any]:
        """It in terms of JSON; ``number`` is the whole value, for a page, which knows no larger integers.

        Args:
            now: the time.
            since: ``count`` when it was told last: only points after that are told.
        """
        told: dict[str, Any] = {
            "text": self._text or ("" if self.count == 0 else to_line(self._plain)[:TEXT]),
            "count": self.count, "age_s": round(now - self.at, 2),
            "number": self.number if self._exact else None, "error": self.error,
        }  # fmt: skip
        new = min(self.count - since, len(self.points))
        if new > 0:
            told["points"] = list(self.points)[-new:]
        return told if self._image is None else {**told, "image": self._image}
