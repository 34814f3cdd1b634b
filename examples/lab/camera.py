"""A camera whose every pixel follows from the frame index, so that a reader can check each one.

All arithmetic is on integers, so a frame is the same on every machine. For frame ``i``, row ``y``
(0 to 511) and column ``x`` (0 to 1023), with ``//`` and ``mod`` as in Python::

    d       = (x - 512)**2 + (y - 256)**2
    p       = (4*d - 1024*i) mod 65536                      # phase: a ring moves out every 64 frames
    ring    = min(p, 65535 - p) // 128                      # 0 … 255
    glow    = 255 * (327680 - d)**2 // 327680**2            # 255 in the centre, 0 in the corners
    r       = (x - cx)**2 + (y - cy)**2
    spot    = 65535 * max(0, 2304 - r)**2 // 2304**2        # a bright spot of 48 pixels radius
    cx, cy  = 48 + bounce(7*i, 927), 48 + bounce(3*i, 415)  # on its way from wall to wall
    bounce(n, s) = s - abs(n mod (2*s) - s)
    noise   = ((3*x*x + 5*y*y + 7*x*y) // 16 + i) mod 16    # changes every pixel from frame to frame

    pixel   = max(ring * glow, spot) // 16 * 16 + noise

The first four pixels of row 0 hold ``i`` itself instead, as four 16-bit words, most significant first.
"""

from __future__ import annotations

import operator
import threading

import numpy as np
from numpy.typing import NDArray

from examples.lab.pacing import Publish, Tally, publish_paced

Frame = NDArray[np.uint16]

ROWS, COLUMNS = 512, 1024
SPOT_RADIUS = 48
INDEX_WORDS = 4


def _bounce(distance: int, span: int) -> int:
    return span - abs(distance % (2 * span) - span)


def _spot() -> Frame:
    across = np.arange(-SPOT_RADIUS, SPOT_RADIUS + 1, dtype=np.int64) ** 2
    inside = np.maximum(0, SPOT_RADIUS**2 - (across[:, None] + across[None, :]))
    return (65535 * inside**2 // SPOT_RADIUS**4).astype(np.uint16)


class Camera:
    """Frames of exactly 1 MiB: 512 rows of 1024 ``uint16`` pixels, given by the formula of this module.

    Holds no state but tables computed once; every method may be called from any thread.
    """

    shape = (ROWS, COLUMNS)

    def __init__(self) -> None:
        x = np.arange(COLUMNS, dtype=np.int64)[None, :]
        y = np.arange(ROWS, dtype=np.int64)[:, None]
        distance = (x - COLUMNS // 2) ** 2 + (y - ROWS // 2) ** 2
        corner = (COLUMNS // 2) ** 2 + (ROWS // 2) ** 2
        self._phase: Frame = (4 * distance % 65536).astype(np.uint16)
        self._glow: Frame = (255 * (corner - distance) ** 2 // corner**2).astype(np.uint16)
        self._noise: Frame = ((3 * x * x + 5 * y * y + 7 * x * y) // 16 % 16).astype(np.uint16)
        self._spot = _spot()

    def frame(self, index: int) -> Frame:
        """Give frame ``index`` as a new array that belongs to the caller.

        Raises:
            ValueError: ``index`` is outside 0 … 2**64 - 1.
        """
        # A NumPy integer would overflow below, where Python's does not.
        index = operator.index(index)
        if not 0 <= index < 2 ** (16 * INDEX_WORDS):
            raise ValueError(f"frame index {index!r} is outside 0 … 2**64 - 1")
        image = self._phase - np.uint16(1024 * index % 65536)
        np.minimum(image, ~image, out=image)
        image >>= 7
        image *= self._glow
        self._add_spot(image, index)
        image &= 0xFFF0
        image |= (self._noise + np.uint16(index % 16)) & 15
        image[0, :INDEX_WORDS] = [index >> shift & 0xFFFF for shift in (48, 32, 16, 0)]
        return image

    def check_frame(self, index: int, array: NDArray[np.generic]) -> int:
        """Count the pixels of ``array`` that differ from frame ``index``; 0 means that the frame is whole.

        An array of another shape or type than a frame's counts as wrong in all 524288 pixels.

        Raises:
            ValueError: ``index`` is outside 0 … 2**64 - 1.
        """
        expected = self.frame(index)
        if array.shape != expected.shape or array.dtype != expected.dtype:
            return expected.size
        return int(np.count_nonzero(array != expected))

    def run(
        self, publish: Publish, stop: threading.Event, rate_hz: float = 20.0, count: int | None = None
    ) -> Tally:
        """Publish frames 0, 1, … on topic ``frame`` until ``stop`` or ``count``.

        The content is ``{"index": i, "image": frame(i)}``, every image an array of its own.
        Args, result and errors are those of :func:`examples.lab.pacing.publish_paced`.
        """
        return publish_paced(publish, "frame", self._content, stop, rate_hz, count=count)

    def _content(self, index: int) -> dict[str, object]:
        return {"index": index, "image": self.frame(index)}

    def _add_spot(self, image: Frame, index: int) -> None:
        side = 2 * SPOT_RADIUS + 1
        left, top = _bounce(7 * index, COLUMNS - side), _bounce(3 * index, ROWS - side)
        patch = image[top : top + side, left : left + side]
        np.maximum(patch, self._spot, out=patch)
