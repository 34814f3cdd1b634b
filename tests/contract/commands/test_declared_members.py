"""What is declared of a member is described to who uses it, whichever way it was declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Protocol, Proxy, Server, close, concurrent, reading, stubs

from tests.contract.rigs.console import KEY, Console
from tests.contract.rigs.monitoring import Monitor
from tests.contract.rigs.supply import Supply


class Marked(Supply):
    """A supply whose author has declared one member."""

    @reading
    def level(self) -> float:
        """Level in volts."""
        return self._voltage

    @concurrent
    @property
    def drift(self) -> float:
        """Drift in volts."""
        return 0.0


DECLARED: dict[str, Any] = {
    "urgent": ["psu.off", "psu.ch1.off"],
    "reading": ["psu.note"],
    "on_cancel": {"psu.ramp": "off"},
    "poll": {"psu.voltage": 60.0},
}
SHOWN = {
    "off": ("urgent", True), "note": ("reading", True), "level": ("reading", True), "drift": ("concurrent", True),
    "ramp": ("on_cancel", "off"),
    "voltage": ("poll", 60.0),
}  # fmt: skip


@pytest.fixture(scope="module")
def rack() -> Iterator[Server]:
    """A server of several objects, of which their server declares something."""
    objects = {"psu": Marked(), "spare": Marked()}
    with Server(objects, name="rack", protocol=Protocol(KEY), **DECLARED) as server:
        yield server


@pytest.fixture
def keyed(console: Console) -> Console:
    console.environment["PZC_KEY"] = KEY
    return console


def test_info_describes_what_a_server_declares_of_members_of_its_objects_and_channels(
    rack: Server, keyed: Console
) -> None:
    members = keyed("info", rack.rep_endpoint, "--json").json["members"]
    for name, (kind, value) in SHOWN.items():
        assert members[f"psu.{name}"][kind] == value
    assert members["psu.ch1.off"]["urgent"] is True
    assert "spare.off" not in members


def test_info_shows_kinds_in_words(rack: Server, keyed: Console) -> None:
    lines = keyed("info", rack.rep_endpoint).out.splitlines()
    assert any(line.split()[:3] == ["psu.off", "method", "(urgent)"] for line in lines)
    assert any("polled every 60 s" in line for line in lines)


def test_serve_describes_what_its_options_declare(keyed: Console) -> None:
    _, endpoint = keyed.serve("--urgent", "say", "--on-cancel", "wait=say")
    members = keyed("info", endpoint, "--json").json["members"]
    assert members["say"]["urgent"] is True
    assert members["wait"]["on_cancel"] == "say"


def test_stubs_and_help_name_the_kinds(rack: Server) -> None:
    psu: Any = Proxy(rack.rep_endpoint, protocol=Protocol(KEY))
    for text in (stubs(psu), psu.psu.__doc__):
        assert all(
            words in text
            for words in ("urgent", "reading", "on_cancel off", "polled every 60 s", "concurrent")
        )
    close(psu)


def test_an_urgent_member_of_a_declaration_is_on_top_of_the_panel(rack: Server, keyed: Console) -> None:
    keyed.environment["PZC_PEERS"] = f"rack={rack.rep_endpoint}"
    with Monitor(keyed) as monitor:
        monitor.await_agent("rack")
        controls = monitor.ask("GET", "/panel?agent=rack&path=psu")[2]["controls"]
    assert (controls[0]["name"], controls[0]["urgent"]) == ("off", True)
    ramp = next(each for each in controls if each["name"] == "ramp")
    assert ramp["declared"] == "on_cancel off"
