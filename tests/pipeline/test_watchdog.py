"""A row that takes for ever ends in quarantine, and the others are stored."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

from pzc.pipeline.decoding.decode import Decoder
from pzc.pipeline.decoding.watchdog import RowTooSlow, Watchdog
from pzc.protocol.codec import Message
from pzc.protocol.keyring import Keyring
from pzc.testing.timings import Timings

from tests.pipeline.conftest import Sender
from tests.pipeline.test_decode import batch

KEY = "a key of the lab"


class Endless(Decoder):
    """Does not end for some contents."""

    def open(self, frames: Sequence[bytes], content_ref: str | None = None) -> tuple[Message, Any]:
        envelope, content = super().open(frames, content_ref)
        while content == "for ever":
            time.monotonic()
        return envelope, content


def test_a_row_that_takes_for_ever_is_refused_and_the_others_are_not() -> None:
    sender = Sender("psu", KEY)
    rows = [
        sender.row(topic, content, 1) for topic, content in zip("vwx", ["a", "for ever", "b"], strict=True)
    ]
    with Timings(stored_seconds=0.2):
        found = Endless(Keyring.from_key(KEY), None).decode(batch(rows)).to_pylist()
    assert [row["value_string"] for row in found] == ["a", None, "b"]
    assert (found[1]["error"], found[1]["reason"]) == ("RowTooSlow", "more than 0.2 s")


def test_an_error_that_comes_too_late_hits_nobody() -> None:
    watchdog = Watchdog()

    def until(end: float) -> float:
        while time.monotonic() < end:
            sum(range(100))
        return end

    ended: list[float] = []
    with Timings(stored_seconds=0.02), watchdog:
        for _ in range(40):
            end = time.monotonic() + 0.025
            try:
                ended.append(watchdog.run(until, end))
            except RowTooSlow:
                ended.append(0.0)
            sum(range(1000))
    assert len(ended) == 40


def test_work_that_swallows_the_error_is_told_again() -> None:
    def stubborn() -> None:
        for _ in range(2):
            try:
                while True:
                    time.monotonic()
            except RowTooSlow:
                continue

    with Timings(stored_seconds=0.05), Watchdog() as watchdog:
        watchdog.run(stubborn)


@pytest.mark.parametrize("value", [1, "text"])
def test_what_is_done_in_time_is_given(value: object) -> None:
    with Watchdog() as watchdog:
        assert watchdog.run(lambda: value) == value


PROFILED = """
import sys, time
from pzc.pipeline.decoding.watchdog import RowTooSlow, Watchdog
from pzc.testing.timings import Timings

def endless():
    while True:
        time.monotonic()

with Timings(stored_seconds=0.1), Watchdog() as watchdog:
    try:
        watchdog.run(endless)
    except RowTooSlow:
        pass
sys.setprofile(lambda *_: None)
(lambda: None)()
sys.setprofile(None)
print("over")
"""


def test_a_process_in_which_a_row_was_too_slow_can_be_profiled() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROFILED], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "over\n"
