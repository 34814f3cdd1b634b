"""How the sources of ``pzc record`` are written."""

from __future__ import annotations

import pytest

from pzc.console.recording import split_source
from pzc.console.targets import UsageError


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("psu", ("psu", "*")),
        ("psu:v", ("psu", "v")),
        ("cam*:frames:left", ("cam*", "frames:left")),
        ("tcp://127.0.0.1:5555", ("tcp://127.0.0.1:5555", "*")),
        ("tcp://[::1]:5555:v", ("tcp://[::1]:5555", "v")),
        ("ipc:///run/psu.sock:v", ("ipc:///run/psu.sock", "v")),
    ],
)
def test_a_source_is_an_agent_and_perhaps_a_topic(text: str, source: tuple[str, str]) -> None:
    assert split_source(text) == source


@pytest.mark.parametrize("text", ["", ":v", "psu:", "tcp://host", "udp://host:1"])
def test_a_source_without_an_agent_or_topic_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not N"):
        split_source(text)
