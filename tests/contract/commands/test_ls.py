"""``pzc ls`` and ``pzc registry``: what is there, as real processes tell it."""

from __future__ import annotations

import json
import re
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent, Protocol

from tests.contract.rigs.console import KEY, Console
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.programs import Program

HEARD = "0.5"


@pytest.fixture
def lab(console: Console) -> Console:
    """A console with a key, and nobody there yet."""
    console.environment["PZC_KEY"] = KEY
    return console


def _rows(lab: Console, *arguments: str) -> dict[str, dict[str, Any]]:
    outcome = lab("ls", "--json", "--timeout", HEARD, *arguments)
    assert outcome.status == 0, outcome.err
    return {row["name"]: row for row in outcome.rows}


def _registry(lab: Console, *arguments: str) -> tuple[Program, str]:
    process = lab.start("registry", *arguments)
    line = process.line()
    found = re.search(r" is a registry at (tcp://[^ ,]+), ", line)
    assert found, line or process.finish().err
    return process, found[1]


def test_a_server_is_listed_with_its_type_address_and_owner(lab: Console) -> None:
    process, endpoint = lab.serve("--name", "psu")
    row = _rows(lab)["/psu"]
    assert (row["kind"], row["type"], row["addresses"]) == ("service", "Supply", [endpoint])
    assert (row["pid"], row["sources"]) == (process.pid, ["multicast"])
    assert row["age_s"] >= 0


def test_people_get_a_table(lab: Console) -> None:
    _, endpoint = lab.serve("--name", "psu")
    heading, line = lab("ls", "--timeout", HEARD).out.splitlines()
    assert heading.split() == ["name", "kind", "type", "address", "where", "age", "source"]
    assert line.split()[:4] == ["/psu", "service", "Supply", endpoint]


def test_what_an_agent_says_of_itself_stands_beside_its_name(lab: Console) -> None:
    with Agent(name="psu", metadata={"room": "B12"}, protocol=Protocol(KEY)):
        assert _rows(lab)["/psu"]["metadata"] == {"room": "B12"}
        assert lab("ls", "--timeout", HEARD).out.splitlines()[1].endswith("room=B12")


def test_a_pattern_chooses(lab: Console) -> None:
    lab.serve("--name", "psu1")
    lab.serve("--name", "camera")
    assert list(_rows(lab, "psu*")) == ["/psu1"]


def test_nobody_is_no_error_and_says_what_to_do(lab: Console) -> None:
    outcome = lab("ls", "--timeout", HEARD)
    assert (outcome.status, outcome.out) == (0, "")
    assert "pzc doctor" in outcome.err


def test_a_registry_that_is_not_reached_is_told(lab: Console) -> None:
    lab.environment.update(PZC_REGISTRY="tcp://127.0.0.1:9", PZC_DISCOVERY_IP="off")
    told = lab("ls", "--timeout", HEARD).err
    assert "The registry at tcp://127.0.0.1:9 is not reached" in told
    assert "pzc registry starts one" in told


def test_where_nobody_can_be_heard_this_is_told(lab: Console) -> None:
    lab.environment["PZC_DISCOVERY_IP"] = "off"
    assert "Nothing can be heard here: multicast is switched off" in lab("ls", "--timeout", HEARD).err


def test_a_pattern_may_name_another_partition(lab: Console) -> None:
    lab.environment["PZC_PARTITION"] = "sim"
    lab.serve("--name", "psu")
    lab.environment["PZC_PARTITION"] = None
    lab.environment["PZC_PEERS"] = "psu2=tcp://127.0.0.1:5555"
    assert list(_rows(lab, "@sim@/psu*")) == ["/psu"]
    assert list(_rows(lab, "psu*")) == ["psu2"]


@pytest.mark.parametrize("pattern", ["@a b@/psu", "@sim", "@sim@"])
def test_a_partition_that_is_none_is_an_error(lab: Console, pattern: str) -> None:
    outcome = lab("ls", pattern)
    assert outcome.status == 1
    assert "ConfigError" in outcome.err


def test_a_pattern_that_is_none_is_an_error(lab: Console) -> None:
    outcome = lab("ls", "a b")
    assert outcome.status == 1
    assert "ConfigError" in outcome.err


def test_static_peers_are_listed(lab: Console) -> None:
    lab.environment["PZC_PEERS"] = "old=tcp://127.0.0.1:5555"
    assert _rows(lab)["old"]["sources"] == ["static"]


def test_whoever_has_another_key_is_not_listed_but_told(lab: Console) -> None:
    lab.serve("--name", "psu")
    lab.environment["PZC_KEY"] = "the key of another laboratory"
    outcome = lab("ls", "--timeout", "1.2")
    assert outcome.out == ""
    assert "foreign key" in outcome.err


def test_a_topic_is_listed_once_it_was_published(lab: Console) -> None:
    _, endpoint = lab.serve("--name", "psu")
    lab.start("watch", f"{endpoint}/changed", "--count", "1")
    numbers = iter(range(1, 100))

    def listed() -> bool:
        lab("set", "psu.voltage", str(next(numbers) / 10))
        return "/psu/changed" in _rows(lab, "/**", "--topics")

    wait_until(listed)


def test_commands_find_an_agent_by_its_name(lab: Console) -> None:
    lab.serve("--name", "psu")
    assert lab("set", "psu.voltage", "2.5").status == 0
    assert lab("get", "psu.voltage").out == "2.5\n"
    assert json.loads(lab("info", "psu", "--json").out)["name"] == "psu"


def test_info_tells_where_a_name_was_found(lab: Console) -> None:
    _, endpoint = lab.serve("--name", "psu")
    told = lab("info", "psu", "--json").json
    assert (told["found_as"], told["addresses"], told["endpoint"]) == ("@@/psu", [endpoint], endpoint)
    assert "found_as" not in lab("info", endpoint, "--json").json


def test_a_name_with_a_dot_is_told_from_the_member(lab: Console) -> None:
    lab.serve("--name", "bench.psu")
    assert lab("get", "bench.psu.resource").out == "SIM\n"


def test_names_come_from_a_registry_where_there_is_no_multicast(lab: Console) -> None:
    _, endpoint = _registry(lab, "--bind", "tcp://127.0.0.1:0")
    lab.environment.update(PZC_REGISTRY=endpoint, PZC_DISCOVERY_IP="off")
    lab.serve("--name", "psu")
    assert _rows(lab)["/psu"]["sources"] == ["registry"]
    assert lab("get", "psu.resource").out == "SIM\n"


def test_a_registry_tells_its_state_and_ends_with_status_0(lab: Console, tmp_path: Path) -> None:
    state, place = tmp_path / "registry.json", tmp_path / "endpoint"
    process, endpoint = _registry(
        lab, "--bind", "tcp://127.0.0.1:0", "--state", str(state), "--endpoint-file", str(place)
    )
    assert place.read_text() == f"{endpoint}\n"
    assert lab("call", f"{endpoint}.connect", "/a/x", "/b/x").out == "1\n"
    assert lab("get", f"{endpoint}.status", "--json").json["connections"] == 1
    refused = lab("call", f"{endpoint}.connect", "/b/x", "/a/x")
    assert refused.status == 1
    assert refused.err.startswith("pzc: CycleRefused: ")
    process.send_signal(signal.SIGTERM)
    assert process.finish().status == 0
    assert not place.exists()
    assert json.loads(state.read_text())["connections"] == [["/a/x", "/b/x"]]


def test_a_registry_is_found_by_its_name_through_itself(lab: Console) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
    lab.environment["PZC_DISCOVERY_IP"] = "off"
    process, _ = _registry(lab, "--bind", endpoint)
    lab.environment["PZC_REGISTRY"] = endpoint
    wait_until(lambda: "/registry" in _rows(lab))
    assert lab("call", "registry.connect", "/a/x", "/b/x").out == "1\n"
    process.send_signal(signal.SIGTERM)
    outcome = process.finish()
    assert (outcome.status, outcome.err) == (0, "")


def test_a_registry_whose_file_cannot_be_understood_says_so_and_runs(lab: Console, tmp_path: Path) -> None:
    state = tmp_path / "registry.json"
    state.write_text("{")
    process, _ = _registry(lab, "--bind", "tcp://127.0.0.1:0", "--state", str(state))
    process.send_signal(signal.SIGTERM)
    outcome = process.finish()
    assert outcome.status == 0
    assert "was renamed to" in outcome.err


def test_a_registry_whose_port_is_taken_says_so(lab: Console) -> None:
    _, endpoint = _registry(lab, "--bind", "tcp://127.0.0.1:0")
    outcome = lab("registry", "--bind", endpoint)
    assert outcome.status == 1
    assert "address already in use" in outcome.err
