from __future__ import annotations

import threading

import pytest

from pzc import PeerLost
from pzc.agents.client.exchanges import repeated


class Script:
    """Fails as often as it is told to."""

    def __init__(self, error: type[Exception], failures: float) -> None:
        self.error = error
        self.failures = failures
        self.calls = 0

    def run(self) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error(str(self.calls))
        return self.calls

    def repeated(self, timeout: float) -> int:
        closed = threading.Event()
        closed.set()  # no pause
        return repeated(self.run, timeout, closed)


def test_a_call_is_repeated_until_it_has_a_result() -> None:
    script = Script(PeerLost, 3)
    assert script.repeated(60.0) == 4


def test_another_error_is_raised_at_once() -> None:
    script = Script(ValueError, 3)
    with pytest.raises(ValueError, match="1"):
        script.repeated(60.0)
    assert script.calls == 1


def test_the_last_error_is_raised_when_there_is_no_time_for_another_try() -> None:
    script = Script(PeerLost, float("inf"))
    with pytest.raises(PeerLost) as raised:
        script.repeated(0.05)
    assert str(raised.value) == str(script.calls) != "1"
