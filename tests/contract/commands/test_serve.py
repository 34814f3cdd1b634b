"""``pzc serve``: real processes on loopback."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from pzc import Proxy, close

from tests.contract.rigs.console import Console
from tests.contract.rigs.programs import PATIENCE


def test_one_line_tells_name_and_endpoints(console: Console) -> None:
    process, endpoint = console.serve("--name", "psu")
    process.send_signal(signal.SIGTERM)
    outcome = process.finish()
    assert endpoint.startswith("tcp://127.0.0.1:")
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")


def test_the_line_as_json(console: Console) -> None:
    process = console.start("serve", "bench:Supply", "--name", "psu", "--json")
    told = json.loads(process.line())
    assert (told["name"], told["serves"], told["pid"]) == ("psu", "Supply", process.pid)


def test_its_name_is_the_one_that_a_rule_gives_it(console: Console) -> None:
    process = console.start(
        "serve", "bench:Supply", "--name", "psu", "--remap", "a:=b", "--remap", "psu:=u", "--json"
    )
    assert json.loads(process.line())["name"] == "u"


def test_a_rule_of_another_form_is_told(console: Console) -> None:
    outcome = console("serve", "bench:Supply", "--remap", "psu")
    assert outcome.status != 0
    assert "is not OLD:=NEW" in outcome.err


@pytest.mark.parametrize(
    "name", ["SIGINT", "SIGTERM", pytest.param("SIGHUP", marks=pytest.mark.needs("posix"))]
)
def test_a_signal_stops_it_with_status_0(console: Console, name: str) -> None:
    number = signal.Signals[name]
    before = signal.signal(number, signal.SIG_DFL)  # which nohup changes for all that it starts
    try:
        process = console.interpret("serve", "bench:Supply")
    finally:
        signal.signal(number, before)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == 0


def test_a_second_signal_does_not_disturb_the_stop(console: Console) -> None:
    process, _ = console.serve()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        process.send_signal(number)
    outcome = process.finish()
    assert (outcome.status, outcome.err) == (0, "")


def test_a_signal_stops_it_while_a_call_runs(console: Console) -> None:
    process, endpoint = console.serve()
    console.start("call", f"{endpoint}.wait")
    assert process.line() == "waiting\n"
    process.send_signal(signal.SIGTERM)
    assert process.finish().status == 0


def test_what_a_driver_prints_comes_at_once_through_a_pipe(console: Console) -> None:
    process = console.interpret("serve", "bench:Supply")
    assert process.stdout is not None
    endpoint = process.stdout.readline().split(" at ")[1].partition(",")[0]
    console("call", f"{endpoint}.say")
    process.kill()
    assert process.communicate(timeout=PATIENCE)[0] == "said\n"


def test_arguments_reach_the_class(console: Console) -> None:
    _, endpoint = console.serve("TCPIP::10.0.0.7::INSTR", "--name", "psu", "limit=5")
    assert console("get", f"{endpoint}.resource").out == "TCPIP::10.0.0.7::INSTR\n"
    assert console("get", f"{endpoint}.limit").out == "5\n"


def test_only_exposed_members_are_served(console: Console) -> None:
    _, endpoint = console.serve("--expose", "voltage,changed")
    assert list(console("info", endpoint, "--json").json["members"]) == ["changed", "voltage"]
    assert console("get", f"{endpoint}.limit").err.startswith("pzc: MemberRefused: ")


def test_a_misspelt_exposed_name_is_told(console: Console) -> None:
    process, _ = console.serve("--expose", "volage")
    process.send_signal(signal.SIGTERM)
    assert process.finish().err == (
        "pzc: expose names 'volage': Supply has no 'volage'; did you mean voltage?\n"
    )


def test_an_exposed_path_is_not_taken_for_a_misspelt_name(console: Console) -> None:
    process, endpoint = console.serve("--expose", "settings.label,history")
    assert console("get", f"{endpoint}.settings").status == 1
    process.send_signal(signal.SIGTERM)
    assert process.finish().err == ""


def test_the_endpoint_file_is_there_once_the_line_is_printed_and_gone_after_the_stop(
    console: Console, tmp_path: Path
) -> None:
    file = tmp_path / "psu.endpoint"
    file.write_text("tcp://127.0.0.1:1\n")
    process, endpoint = console.serve("--endpoint-file", str(file))
    assert file.read_text() == f"{endpoint}\n"
    assert list(tmp_path.iterdir()) == [file]
    process.send_signal(signal.SIGTERM)
    assert process.finish().status == 0
    assert list(tmp_path.iterdir()) == []


def test_an_endpoint_file_of_another_server_stays(console: Console, tmp_path: Path) -> None:
    file = tmp_path / "psu.endpoint"
    process, _ = console.serve("--endpoint-file", str(file))
    file.write_text("tcp://127.0.0.1:1\n")
    process.send_signal(signal.SIGTERM)
    process.finish()
    assert file.read_text() == "tcp://127.0.0.1:1\n"


def test_an_ipc_path_with_dots_is_served(console: Console, tmp_path: Path) -> None:
    _, endpoint = console.serve("--bind", f"ipc://{tmp_path}/v1.2.sock")
    assert endpoint == f"ipc://{tmp_path}/v1.2.sock"
    assert console("get", f"{endpoint}.resource").out == "SIM\n"
    assert console("info", endpoint, "--json").json["pub_endpoint"] == f"{endpoint}.pub"


def test_the_pub_endpoint_is_on_the_host_of_the_rep_endpoint(console: Console) -> None:
    _, endpoint = console.serve("--bind", "tcp://127.0.0.2:0")
    assert console("info", endpoint, "--json").json["pub_endpoint"].startswith("tcp://127.0.0.2:")


def test_a_single_port_is_all_there_is(console: Console) -> None:
    process = console.start("serve", "bench:Supply", "--single-port")
    line = process.line()
    assert "publishes at the same port" in line
    endpoint = line.split(" at ")[1].partition(",")[0]
    assert console("info", endpoint, "--json").json["pub_endpoint"] == ""


def test_a_remote_stop_ends_it_with_status_0(console: Console) -> None:
    process, endpoint = console.serve()
    proxy = Proxy(endpoint)
    proxy._proxy_stop_server()
    close(proxy)
    assert process.finish().status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["nomodule:Supply"], 1, "ImportError: cannot import nomodule: ModuleNotFoundError"),
        (["nomodule:Supply"], 1, "it is looked for in "),
        (["bench:Nothing"], 1, "ImportError: module bench has no Nothing; known are "),
        (["bench:Suply"], 1, "ImportError: module bench has no Suply; did you mean Supply?"),
        (["bench:Supply", "--poll", "voltage"], 2, "expected two words with '=' between, such as voltage=1s"),
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
    console: Console, arguments: list[str], status: int, text: str
) -> None:
    outcome = console("serve", *arguments)
    assert (outcome.status, outcome.out) == (status, "")
    assert text in outcome.err
    assert outcome.err.count("\n") == 1


def test_debug_shows_the_traceback_of_the_class(console: Console) -> None:
    outcome = console("serve", "bench:Broken", "--debug")
    assert outcome.status == 1
    assert 'raise RangeError("no such instrument")' in outcome.err


def test_a_bound_endpoint_is_named_with_the_reason(console: Console) -> None:
    _, endpoint = console.serve()
    outcome = console("serve", "bench:Supply", "--bind", endpoint)
    assert outcome.status == 1
    assert outcome.err.startswith(f"pzc: BindError: cannot bind {endpoint}: address already in use")
    assert outcome.err.count("\n") == 1


def test_every_call_is_written_to_the_audit_log(console: Console, tmp_path: Path) -> None:
    log = tmp_path / "psu.audit.jsonl"
    process, endpoint = console.serve("--audit", str(log), "--thread-affine")
    assert console("set", f"{endpoint}.limit", "7").status == 0
    process.send_signal(signal.SIGTERM)
    process.finish()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    written = [line for line in lines if line.get("action") == "setattr"]
    assert [(line["member"], line["args"], line["outcome"]) for line in written] == [("limit", [7], "ok")]
