from __future__ import annotations

import hashlib
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.lab.camera import Camera

CAMERA = Camera()
indexes = st.one_of(st.integers(0, 10_000), st.integers(0, 2**64 - 1))


def bounce(n: int, span: int) -> int:
    return span - abs(n % (2 * span) - span)


def pixel(i: int, y: int, x: int) -> int:
    """The documented formula, one pixel at a time, in Python's own integers."""
    if y == 0 and x < 4:
        return i // 65536 ** (3 - x) % 65536
    d = (x - 512) ** 2 + (y - 256) ** 2
    p = (4 * d - 1024 * i) % 65536
    ring = min(p, 65535 - p) // 128
    glow = 255 * (327680 - d) ** 2 // 327680**2
    r = (x - 48 - bounce(7 * i, 927)) ** 2 + (y - 48 - bounce(3 * i, 415)) ** 2
    spot = 65535 * max(0, 2304 - r) ** 2 // 2304**2
    noise = ((3 * x * x + 5 * y * y + 7 * x * y) // 16 + i) % 16
    return max(ring * glow, spot) // 16 * 16 + noise


def test_a_frame_is_exactly_one_mebibyte_of_uint16() -> None:
    frame = CAMERA.frame(3)
    assert (frame.dtype, frame.shape, frame.nbytes) == (np.uint16, (512, 1024), 2**20)


@given(index=indexes, y=st.integers(0, 511), x=st.integers(0, 1023))
def test_any_pixel_of_any_frame_follows_the_formula(index: int, y: int, x: int) -> None:
    assert CAMERA.frame(index)[y, x] == pixel(index, y, x)


@given(index=indexes, dy=st.integers(-50, 50), dx=st.integers(-50, 50))
def test_pixels_around_the_spot_follow_the_formula(index: int, dy: int, dx: int) -> None:
    y, x = max(0, 48 + bounce(3 * index, 415) + dy), max(0, 48 + bounce(7 * index, 927) + dx)
    y, x = min(y, 511), min(x, 1023)
    assert CAMERA.frame(index)[y, x] == pixel(index, y, x)


def test_a_whole_frame_follows_the_formula() -> None:
    expected = [[pixel(77, y, x) for x in range(1024)] for y in range(512)]
    assert np.array_equal(CAMERA.frame(77), expected)


def test_frames_are_the_same_on_every_machine() -> None:
    digest = hashlib.sha256(b"".join(CAMERA.frame(i).astype("<u2").tobytes() for i in (0, 1, 500, 2**40)))
    assert digest.hexdigest() == "90a0a8349071655288fa3f7163ebc69686d5c625de6f944552b5b41764183254"


@given(index=indexes)
def test_an_untouched_frame_has_no_wrong_pixel(index: int) -> None:
    assert CAMERA.check_frame(index, CAMERA.frame(index)) == 0


@given(index=indexes, y=st.integers(0, 511), x=st.integers(0, 1023), bit=st.integers(0, 15))
def test_one_flipped_bit_is_one_wrong_pixel(index: int, y: int, x: int, bit: int) -> None:
    frame = CAMERA.frame(index)
    frame[y, x] ^= 1 << bit
    assert CAMERA.check_frame(index, frame) == 1


def test_a_neighbouring_frame_is_wrong_in_every_pixel_but_the_index_words() -> None:
    assert CAMERA.check_frame(8, CAMERA.frame(7)) == 512 * 1024 - 3


@given(index=st.integers(0, 2**64 - 1), other=st.integers(0, 2**64 - 1))
def test_a_frame_is_never_mistaken_for_another(index: int, other: int) -> None:
    assert (CAMERA.check_frame(index, CAMERA.frame(other)) == 0) == (index == other)


@pytest.mark.parametrize(
    "array",
    [
        CAMERA.frame(5).astype(np.int32),
        CAMERA.frame(5).ravel(),
        CAMERA.frame(5)[:, :-1],
        CAMERA.frame(5).view(np.uint8),
        np.array(0, np.uint16),
    ],
    ids=["type", "flat", "narrow", "bytes", "scalar"],
)
def test_another_shape_or_type_is_wrong_in_every_pixel(array: np.ndarray) -> None:
    assert CAMERA.check_frame(5, array) == 512 * 1024


def test_a_read_only_frame_can_be_checked() -> None:
    frame = CAMERA.frame(5)
    frame.setflags(write=False)
    assert CAMERA.check_frame(5, frame) == 0


def test_a_numpy_index_gives_the_frame_of_its_number() -> None:
    index = 2**62 + 3
    assert CAMERA.check_frame(index, CAMERA.frame(np.int64(index))) == 0  # type: ignore[arg-type]


def test_changing_a_frame_changes_no_later_one() -> None:
    CAMERA.frame(6)[:] = 0
    assert CAMERA.frame(6)[100, 100] == pixel(6, 100, 100)


@pytest.mark.parametrize("index", [-1, 2**64])
def test_an_index_that_does_not_fit_its_words_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match="frame index"):
        CAMERA.frame(index)


def test_run_publishes_frames_with_a_running_index() -> None:
    seen: list[tuple[str, int, int]] = []

    def publish(topic: str, content: object) -> None:
        assert isinstance(content, dict)
        seen.append((topic, content["index"], CAMERA.check_frame(content["index"], content["image"])))

    tally = CAMERA.run(publish, threading.Event(), 1e6, count=3)
    assert seen == [("frame", 0, 0), ("frame", 1, 0), ("frame", 2, 0)]
    assert tally.published == 3


def test_every_published_frame_is_an_array_of_its_own() -> None:
    images: list[np.ndarray] = []
    CAMERA.run(lambda topic, content: images.append(content["image"]), threading.Event(), 1e6, count=2)  # type: ignore[index]
    assert not np.shares_memory(images[0], images[1])
