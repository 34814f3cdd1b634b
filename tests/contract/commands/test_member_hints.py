"""What ``pzc get`` proposes for what is no value, and how wide ``pzc info`` is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pzc import Server
from pzc.testing import command

SENTENCE = "Reads the voltage of this channel, averaged over as many samples as its filter has. "


class Parameter:
    """As the libraries of drivers have them: called for its value."""

    unit = "V"

    @property
    def abstract(self) -> bool:
        """Whether nothing implements it."""
        return False

    def __call__(self) -> float:
        """The value."""
        return 1.5


class Dac:
    """A driver with a parameter, and a method with a long description."""

    def __init__(self) -> None:
        self.ch1 = Parameter()

    def average(self, samples: int = 100, low_pass: float = 0.1, window: str = "rectangular") -> float:
        return samples * low_pass * len(window)


Dac.average.__doc__ = 5 * SENTENCE


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Dac(), discovery=False) as made:
        yield made


def test_get_proposes_the_call_and_a_number_or_text_of_what_is_no_value(server: Server) -> None:
    outcome = command("get", f"{server.rep_endpoint}.ch1")
    assert outcome.status == 2
    ways = outcome.err.rpartition("it has ")[2].partition(": ")[2]
    assert ways.startswith(f"pzc call {server.rep_endpoint}.ch1 or pzc get {server.rep_endpoint}.ch1.unit;")
    assert command("call", f"{server.rep_endpoint}.ch1").out == "1.5\n"


def test_info_is_at_most_100_columns_wide_in_a_pipe(server: Server) -> None:
    lines = command("info", server.rep_endpoint).out.splitlines()
    assert 60 < max(map(len, lines)) <= 100
    assert SENTENCE.strip() in " ".join(" ".join(lines).split())
