"""``pzc doctor`` in conditions that are really wrong, by what its JSON tells."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from tests.contract.rigs.console import KEY, Console
from tests.contract.rigs.programs import PATIENCE

SKEWED = """
import sys, time
real, ahead = time.time_ns, int(sys.argv[1])
time.time_ns = lambda: real() + ahead * 10**9
from pzc import Agent
with Agent() as agent:
    print(agent.rep_endpoint, flush=True)
    sys.stdin.read()
"""


class Report:
    """What one run told."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self.text = text
        told = json.loads(text)
        self.failed: int = told["failed"]
        self._findings: list[dict[str, Any]] = told["findings"]

    def __getitem__(self, check: str) -> dict[str, Any]:
        found = [each for each in self._findings if each["check"] == check]
        assert len(found) == 1, f"{check}: {found} in {[each['check'] for each in self._findings]}"
        return found[0]


Doctor = Callable[..., Report]


@pytest.fixture
def doctor(console: Console, tmp_path: Path) -> Doctor:
    """Runs in a folder of its own with the console's environment; what it told."""
    console.environment.update(PZC_KEY=KEY, HOME=str(tmp_path), PZC_DISCOVERY_IP="off")
    place = Console(tmp_path, console.forge)
    place.environment = console.environment

    def doctor(*arguments: str, **environment: str | None) -> Report:
        console.environment.update(environment)
        outcome = place("doctor", "--json", *arguments)
        return Report(outcome.status, outcome.out)

    return doctor


@pytest.fixture
def skewed() -> Iterator[str]:
    """The endpoint of an agent whose clock is a minute ahead."""
    command = [sys.executable, "-P", "-c", SKEWED, "60"]
    environment = {**os.environ, "PZC_KEY": KEY}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def test_where_all_is_well_nothing_has_failed(doctor: Doctor) -> None:
    report = doctor()
    assert (report.status, report.failed) == (0, 0), report.text


def test_people_are_told_the_same_in_lines(console: Console, tmp_path: Path) -> None:
    console.environment.update(HOME=str(tmp_path), PZC_DISCOVERY_IP="off", PZC_PEERS="psu=tcp://127.0.0.1:1")
    outcome = console("doctor", "--timeout", "0.5")
    assert outcome.status == 1
    assert (
        "\nfailed   peer psu: nothing listens at tcp://127.0.0.1:1: connection refused\n         -> "
        in outcome.out
    )


def test_a_secret_is_never_shown(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("another secret of this lab")
    (tmp_path / "key").chmod(0o600)
    report = doctor(PZC_KEY_FILE=str(tmp_path / "key"))
    assert KEY not in report.text
    assert "another secret" not in report.text
    assert report["setting PZC_KEY"]["found"] == f"set, {len(KEY)} characters (environment variable PZC_KEY)"


def test_each_setting_says_where_it_comes_from(doctor: Doctor, tmp_path: Path) -> None:
    file = tmp_path / "pzc.toml"
    file.write_text('timeout = 12\nser = "json"\n')
    report = doctor(PZC_CONFIG=str(file), PZC_SER="msgpack")
    assert report["setting PZC_TIMEOUT"]["details"] == {"value": 12.0, "origin": f"{file}: timeout"}
    assert report["setting PZC_SER"]["details"]["origin"] == "environment variable PZC_SER"
    assert report["setting PZC_ACCEPT"]["details"]["origin"] == "default"


def test_a_misspelt_variable_is_a_warning_with_the_right_name(doctor: Doctor) -> None:
    finding = doctor(PZC_PEER="psu=tcp://127.0.0.1:1")["misspelt settings"]
    assert (finding["status"], finding["todo"]) == ("warning", "did you mean PZC_PEERS?")


def test_settings_that_cannot_be_used_are_all_told_and_the_rest_is_still_looked_at(doctor: Doctor) -> None:
    report = doctor(PZC_TIMEOUT="soon", PZC_SER="yaml", PZC_PEERS="psu=tcp://127.0.0.1:1")
    assert report.status == 1
    assert "positive number of seconds" in report["setting PZC_TIMEOUT"]["found"]
    assert report["setting PZC_SER"]["status"] == "failed"
    assert report["peers"]["status"] == "skipped"
    assert report["loopback"]["status"] == "ok"


def test_a_settings_file_that_is_none_has_failed(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "pzc.toml").write_text("timeout = = 3")
    assert doctor(PZC_CONFIG=str(tmp_path / "pzc.toml"))["settings file"]["status"] == "failed"


def test_a_key_that_others_can_read_has_failed_with_the_remedy(doctor: Doctor, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("a secret that is long enough")
    key.chmod(0o644)
    finding = doctor(PZC_KEY_FILE=str(key))["file of PZC_KEY_FILE"]
    assert (finding["status"], finding["todo"]) == ("failed", f"chmod 600 {key}")


def test_a_key_file_that_is_missing_has_failed(doctor: Doctor, tmp_path: Path, console: Console) -> None:
    console.environment["PZC_KEY"] = None
    report = doctor(PZC_KEY_FILE=str(tmp_path / "missing"))
    assert report.status == 1
    assert report["file of PZC_KEY_FILE"]["status"] == report["key"]["status"] == "failed"


def test_a_short_key_has_failed(doctor: Doctor) -> None:
    finding = doctor(PZC_KEY="secret")["key"]
    assert finding["status"] == "failed"
    assert "pzc keygen" in finding["found"]


def test_a_keyring_tells_its_keys_and_roles(doctor: Doctor, console: Console, tmp_path: Path) -> None:
    console.environment["PZC_KEY"] = None
    ring = tmp_path / "keyring.toml"
    ring.write_text(
        'active = "alice"\n[keys.alice]\nsecret = "a long secret of alice"\nrole = "admin"\n'
        '[keys.bob]\nsecret = "a long secret of bob"\nrole = "observer"\n'
    )
    ring.chmod(0o600)
    report = doctor(PZC_KEYRING=str(ring))
    assert report["keyring"]["found"] == "2 keys: alice admin, bob observer"
    assert report["key"]["details"]["name"] == "alice"


def test_no_key_is_a_warning_once_messages_leave_this_machine(doctor: Doctor, console: Console) -> None:
    console.environment["PZC_KEY"] = None
    assert doctor()["key"]["status"] == "ok"
    remote = doctor(PZC_PEERS="psu=tcp://192.0.2.77:5555", PZC_TIMEOUT="0.5")
    assert remote["key"]["status"] == "warning"


def test_a_dead_static_peer_has_failed_and_says_why(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
    finding = doctor("--timeout", "0.5", PZC_PEERS=f"psu={endpoint}")["peer psu"]
    assert finding["status"] == "failed"
    assert "connection refused" in finding["found"]


def test_a_port_that_takes_connections_and_does_not_answer_says_so(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        endpoint = f"tcp://127.0.0.1:{deaf.getsockname()[1]}"
        finding = doctor(endpoint, "--timeout", "0.5")[f"peer {endpoint}"]
    assert "takes connections, but no agent answers" in finding["found"]


def test_a_host_that_is_not_known_says_so(doctor: Doctor) -> None:
    endpoint = "tcp://no-such-host.invalid:5555"
    finding = doctor(endpoint, "--timeout", "0.5")[f"peer {endpoint}"]
    assert finding["status"] == "failed"
    assert "not known" in finding["found"]


@pytest.mark.needs("unix")
def test_a_peer_that_is_well_tells_how_it_is_reached(doctor: Doctor, console: Console) -> None:
    _, endpoint = console.serve("--name", "psu")
    details = doctor(PZC_PEERS=f"psu={endpoint}")["peer psu"]["details"]
    assert details["reached"]
    assert details["transport"] == "unix"
    assert details["version"]
    assert details["round_trip_ms"] > 0
    assert "PZC01" in details["dialects"]


def test_a_peer_with_another_key_has_failed_and_says_that_it_is_the_key(
    doctor: Doctor, console: Console
) -> None:
    _, endpoint = console.serve("--name", "psu")
    finding = doctor(PZC_PEERS=f"psu={endpoint}", PZC_KEY="the key of another laboratory")["peer psu"]
    assert finding["status"] == "failed"
    assert "SignatureError" in finding["details"]["error"]
    assert "PZC_KEY" in finding["todo"]


def test_a_peer_that_was_stopped_has_failed_within_its_time(doctor: Doctor, console: Console) -> None:
    process, endpoint = console.serve("--name", "psu")
    process.send_signal(signal.SIGSTOP)
    try:
        finding = doctor(endpoint, "--timeout", "0.5")[f"peer {endpoint}"]
    finally:
        process.send_signal(signal.SIGCONT)
    assert finding["status"] == "failed"


def test_a_peer_whose_clock_is_off_is_a_warning_with_the_difference(doctor: Doctor, skewed: str) -> None:
    finding = doctor(PZC_PEERS=f"late={skewed}")["peer late"]
    assert finding["status"] == "warning"
    assert 50_000 < finding["details"]["clock_offset_ms"] < 70_000


def test_a_port_in_use_has_failed_and_names_the_process(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        finding = doctor("--bind", endpoint)[f"bind {endpoint}"]
    assert finding["status"] == "failed"
    assert f"process {os.getpid()} " in finding["todo"]


def test_a_free_port_is_ok(doctor: Doctor) -> None:
    assert doctor("--bind", "tcp://127.0.0.1:0")["bind tcp://127.0.0.1:0"]["status"] == "ok"


@pytest.mark.needs("posix")
def test_few_file_descriptors_are_a_warning(console: Console, tmp_path: Path) -> None:
    import resource

    console.environment.update(HOME=str(tmp_path), PZC_DISCOVERY_IP="off")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))

    told = console.interpret("doctor", "--json", preexec_fn=limit).communicate(timeout=PATIENCE)[0]
    finding = next(e for e in json.loads(told)["findings"] if e["check"] == "file descriptors")
    assert (finding["status"], finding["details"]["soft"]) == ("warning", 200)


@pytest.mark.needs("posix")
def test_little_address_space_is_a_warning(console: Console, tmp_path: Path) -> None:
    import resource

    console.environment.update(HOME=str(tmp_path), PZC_DISCOVERY_IP="off")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (32 << 20, 32 << 20))

    told = console.interpret("doctor", "--json", preexec_fn=limit).communicate(timeout=PATIENCE)[0]
    finding = next(e for e in json.loads(told)["findings"] if e["check"] == "memory")
    assert finding["status"] == "warning"
    assert "RLIMIT_FSIZE leaves 32 MiB" in finding["found"]


def test_missing_java_is_a_warning_since_only_the_pipeline_needs_it(doctor: Doctor, console: Console) -> None:
    console.environment["JAVA_HOME"] = None
    report = doctor(PATH="/nonexistent")
    assert report["java"]["status"] == "warning"
    assert report.status == 0


def test_missing_java_has_failed_when_spark_is_asked_for(doctor: Doctor, console: Console) -> None:
    console.environment["JAVA_HOME"] = None
    report = doctor("--spark", PATH="/nonexistent")
    assert report["java"]["status"] == report["spark"]["status"] == "failed"


@pytest.mark.needs("posix")
def test_a_runtime_folder_that_is_missing_is_a_warning(doctor: Doctor, tmp_path: Path) -> None:
    assert doctor(XDG_RUNTIME_DIR=str(tmp_path / "missing"))["runtime folder"]["status"] == "warning"


def test_multicast_hears_itself_on_loopback(doctor: Doctor, console: Console) -> None:
    console.environment["PZC_DISCOVERY_IP"] = None
    assert doctor()["multicast lo"]["status"] == "ok"


def test_others_are_heard_by_name(doctor: Doctor, console: Console) -> None:
    console.environment["PZC_DISCOVERY_IP"] = None
    process, _ = console.serve("--name", "psu")
    (told,) = doctor()["multicast others"]["details"]["processes"]
    assert told["pid"] == process.pid
    assert "/psu" in told["names"]


def test_datagrams_of_another_key_are_counted_and_their_sender_is_told(
    doctor: Doctor, console: Console
) -> None:
    console.environment["PZC_DISCOVERY_IP"] = None
    console.serve("--name", "psu")
    finding = doctor(PZC_KEY="the key of another laboratory")["multicast foreign key"]
    assert finding["status"] == "warning"
    assert finding["details"]["count"] > 0
    assert finding["details"]["senders"] == ["127.0.0.1"]
    assert "of 127.0.0.1; of the last one: it is signed with key" in finding["found"]


def test_two_processes_with_one_name_are_told(doctor: Doctor, console: Console) -> None:
    console.environment["PZC_DISCOVERY_IP"] = None
    one, _ = console.serve("--name", "psu")
    two, _ = console.serve("--name", "psu")
    finding = doctor()["names"]
    assert finding["status"] == "warning"
    assert str(one.pid) in finding["found"]
    assert str(two.pid) in finding["found"]


def test_multicast_that_is_switched_off_is_skipped(doctor: Doctor) -> None:
    report = doctor()
    assert report["multicast"]["status"] == "skipped"
    assert report["setting PZC_DISCOVERY_IP"]["found"].startswith("off (")


def test_an_interface_that_is_not_there_has_failed(doctor: Doctor, console: Console) -> None:
    console.environment["PZC_DISCOVERY_IP"] = None
    report = doctor(PZC_IP="192.0.2.200")
    assert (report.status, report["multicast"]["status"]) == (1, "failed")


def test_a_dead_registry_has_failed_and_says_how_to_start_one(doctor: Doctor) -> None:
    finding = doctor("--timeout", "0.5", PZC_REGISTRY="tcp://127.0.0.1:1")["registry"]
    assert finding["status"] == "failed"
    assert "pzc registry" in finding["todo"]


def test_an_agent_in_the_place_of_a_registry_has_failed(doctor: Doctor, console: Console) -> None:
    _, endpoint = console.serve("--name", "psu")
    finding = doctor(PZC_REGISTRY=endpoint)["registry"]
    assert finding["status"] == "failed"
    assert "no registry" in finding["found"]


def test_another_program_at_the_port_has_failed(doctor: Doctor) -> None:
    context = zmq.Context()
    try:
        with context.socket(zmq.ROUTER) as other:
            port = other.bind_to_random_port("tcp://127.0.0.1")
            finding = doctor(f"tcp://127.0.0.1:{port}", "--timeout", "0.5")[f"peer tcp://127.0.0.1:{port}"]
    finally:
        context.term()
    assert finding["status"] == "failed"
