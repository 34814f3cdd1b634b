"""``pzc serve``: real processes on loopback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console.command import PATIENCE, Console


def test_one_line_tells_name_and_endpoints(pzc: Console) -> None:
    process, endpoint = pzc.serve("--name", "psu")
    process.send_signal(signal.SIGTERM)
    outcome = pzc.finish(process)
    assert endpoint.startswith("tcp://127.0.0.1:")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")


def test_the_line_as_json(pzc: Console) -> None:
    process = pzc.start("serve", "bench:Supply", "--name", "psu", "--json")
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert (told["name"], told["serves"], told["pid"]) == ("psu", "Supply", process.pid)


def test_its_name_is_the_one_that_a_rule_gives_it(pzc: Console) -> None:
    process = pzc.start(
        "serve", "bench:Supply", "--name", "psu", "--remap", "a:=b", "--remap", "psu:=u", "--json"
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["name"] == "u"


def test_a_rule_of_another_form_is_told(pzc: Console) -> None:
    outcome = pzc("serve", "bench:Supply", "--remap", "psu")
    assert outcome.status != 0
    assert "is not OLD:=NEW" in outcome.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_with_status_0(pzc: Console, number: signal.Signals) -> None:
    process, _ = pzc.serve()
    process.send_signal(number)
    assert pzc.finish(process).status == 0


def test_a_second_signal_does_not_disturb_the_stop(pzc: Console) -> None:
    process, _ = pzc.serve()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        process.send_signal(number)
    outcome = pzc.finish(process)
    assert (outcome.status, outcome.err) == (0, "")


def test_a_signal_stops_it_while_a_call_runs(pzc: Console) -> None:
    process, endpoint = pzc.serve()
    pzc.start("call", f"{endpoint}.wait")
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGTERM)
    assert pzc.finish(process).status == 0


def test_arguments_reach_the_class(pzc: Console) -> None:
    _, endpoint = pzc.serve("TCPIP::10.0.0.7::INSTR", "--name", "psu", "limit=5")
    assert pzc("get", f"{endpoint}.resource").out == "TCPIP::10.0.0.7::INSTR\n"
    assert pzc("get", f"{endpoint}.limit").out == "5\n"


def test_only_exposed_members_are_served(pzc: Console) -> None:
    _, endpoint = pzc.serve("--expose", "voltage,changed")
    assert list(pzc("info", endpoint, "--json").json["members"]) == ["changed", "voltage"]
    assert pzc("get", f"{endpoint}.limit").err.startswith("pzc: MemberRefused: ")


def test_a_misspelt_exposed_name_is_told(pzc: Console) -> None:
    process, _ = pzc.serve("--expose", "volage")
    process.send_signal(signal.SIGTERM)
    assert pzc.finish(process).err == "pzc: --expose names 'volage', which Supply does not have\n"


def test_the_endpoint_file_is_there_once_the_line_is_printed_and_gone_after_the_stop(
    pzc: Console, tmp_path: Path
) -> None:
    file = tmp_path / "psu.endpoint"
    file.write_text("tcp://127.0.0.1:1\n")
    process, endpoint = pzc.serve("--endpoint-file", str(file))
    assert file.read_text() == f"{endpoint}\n"
    assert list(tmp_path.iterdir()) == [file]
    process.send_signal(signal.SIGTERM)
    assert pzc.finish(process).status == 0
    assert list(tmp_path.iterdir()) == []


def test_an_endpoint_file_of_another_server_stays(pzc: Console, tmp_path: Path) -> None:
    file = tmp_path / "psu.endpoint"
    process, _ = pzc.serve("--endpoint-file", str(file))
    file.write_text("tcp://127.0.0.1:1\n")
    process.send_signal(signal.SIGTERM)
    pzc.finish(process)
    assert file.read_text() == "tcp://127.0.0.1:1\n"


def test_an_ipc_path_with_dots_is_served(pzc: Console, tmp_path: Path) -> None:
    _, endpoint = pzc.serve("--bind", f"ipc://{tmp_path}/v1.2.sock")
    assert endpoint == f"ipc://{tmp_path}/v1.2.sock"
    assert pzc("get", f"{endpoint}.resource").out == "SIM\n"
    assert pzc("info", endpoint, "--json").json["pub_endpoint"] == f"{endpoint}.pub"


def test_the_pub_endpoint_is_on_the_host_of_the_rep_endpoint(pzc: Console) -> None:
    _, endpoint = pzc.serve("--bind", "tcp://127.0.0.2:0")
    assert pzc("info", endpoint, "--json").json["pub_endpoint"].startswith("tcp://127.0.0.2:")


def test_a_single_port_is_all_there_is(pzc: Console) -> None:
    process = pzc.start("serve", "bench:Supply", "--single-port")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "publishes at the same port" in line
    endpoint = line.split(" at ")[1].partition(",")[0]
    assert pzc("info", endpoint, "--json").json["pub_endpoint"] == ""


def test_a_remote_stop_ends_it_with_status_0(pzc: Console) -> None:
    process, endpoint = pzc.serve()
    client = "import sys, pzc; proxy = pzc.Proxy(sys.argv[1]); proxy._proxy_stop_server(); pzc.close(proxy)"
    subprocess.run(
        [sys.executable, "-c", client, endpoint], timeout=PATIENCE, check=True, env=pzc.environment
    )
    assert pzc.finish(process).status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["nomodule:Supply"], 1, "ImportError: cannot import nomodule: ModuleNotFoundError"),
        (["bench:Nothing"], 1, "ImportError: module bench has no Nothing"),
        (["bench:Broken"], 1, "RangeError: no such instrument"),
        (["bench:Leaving"], 1, "RuntimeError: the served object was not made: its code called exit(0)"),
        (["bench:Supply", "--bind", "nowhere"], 1, "ConfigError: 'nowhere' is not an endpoint"),
        (["bench:Supply", "--endpoint-file", "/no/such/file"], 1, "OSError: endpoint file /no/such/file"),
        (["bench"], 2, "'bench' is not MODULE:CLASS"),
        (["bench:number"], 2, "bench:number is no class or function, but int"),
        (["bench:Supply", "1", "2"], 2, "too many positional arguments"),
        (["bench:Supply", "speed=3"], 2, "unexpected keyword argument 'speed'"),
        (["bench:Supply", "k=1", "k=2"], 2, "keyword argument k is given twice"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    pzc: Console, arguments: list[str], status: int, text: str
) -> None:
    outcome = pzc("serve", *arguments)
    assert (outcome.status, outcome.out) == (status, "")
    assert text in outcome.err
    assert outcome.err.count("\n") == 1


def test_debug_shows_the_traceback_of_the_class(pzc: Console) -> None:
    outcome = pzc("serve", "bench:Broken", "--debug")
    assert outcome.status == 1
    assert 'raise RangeError("no such instrument")' in outcome.err


def test_a_bound_endpoint_is_named_with_the_reason(pzc: Console) -> None:
    _, endpoint = pzc.serve()
    outcome = pzc("serve", "bench:Supply", "--bind", endpoint)
    assert outcome.status == 1
    assert outcome.err.startswith(f"pzc: BindError: cannot bind {endpoint}: address already in use")
    assert outcome.err.count("\n") == 1


def test_every_call_is_written_to_the_audit_log(pzc: Console, tmp_path: Path) -> None:
    log = tmp_path / "psu.audit.jsonl"
    process, endpoint = pzc.serve("--audit", str(log), "--thread-affine")
    assert pzc("set", f"{endpoint}.limit", "7").status == 0
    process.send_signal(signal.SIGTERM)
    pzc.finish(process)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    written = [line for line in lines if line.get("action") == "setattr"]
    assert [(line["member"], line["args"], line["outcome"]) for line in written] == [("limit", [7], "ok")]
