"""The demo's camera with one wrong pixel in frame 5, made before signing."""

from __future__ import annotations

from typing import Any

from examples.lab import camera, instrument


class WrongPixel(camera.Camera):
    def frame(self, index: int) -> Any:
        image = super().frame(index).copy()
        if index == 5:
            image[100, 200] ^= 1
        return image


class CameraInstrument(instrument.CameraInstrument):
    def __init__(self) -> None:
        super().__init__()
        self.camera = WrongPixel()
