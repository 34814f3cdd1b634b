"""`pzc.testing.command`: the command line in this process, which is afterwards what it was before."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from pzc import Agent, ReceiveTimeout
from pzc.testing import Running, command

SERVED = """
class Supply:
    voltage = {value}
"""


def test_what_a_command_writes_comes_back_with_its_status() -> None:
    outcome = command("version", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.json["pzc"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["get", "psu"], 2, "is not N.MEMBER"),
        (["nonsense"], 2, "error: "),
        (["get", "psu.voltage", "--timeout", "0.1"], 1, "UnknownName"),
    ],
)
def test_a_failure_is_a_status_and_a_text(arguments: list[str], status: int, said: str) -> None:
    outcome = command(*arguments, environment={"PZC_DISCOVERY_IP": "off"})
    assert (outcome.status, outcome.out) == (status, "")
    assert said in outcome.err


def test_help_has_status_0() -> None:
    assert command("--help").status == 0


def test_variables_and_folder_hold_for_the_command_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PZC_SER", "yaml")
    (tmp_path / "pzc.toml").write_text("timeout = 12\n")
    before = dict(os.environ), Path.cwd(), list(sys.path)
    environment = {"PZC_SER": None, "PZC_NAMESPACE": "lab", "PZC_DISCOVERY_IP": "off"}
    findings = command("doctor", "--json", environment=environment, cwd=tmp_path).json["findings"]
    found = {each["check"]: each["details"] for each in findings}
    assert found["setting PZC_TIMEOUT"]["value"] == 12.0
    assert found["setting PZC_SER"]["origin"] == "default"
    assert found["setting PZC_NAMESPACE"]["value"] == "lab"
    assert (dict(os.environ), Path.cwd(), list(sys.path)) == before


def test_a_command_until_ctrl_c_ends_with_what_runs_beside_it() -> None:
    seen: list[str] = []
    with Agent(name="source", discovery=False) as source:
        target = f"{source.rep_endpoint}/readings"

        def meanwhile(running: Running) -> None:
            source.wait_for_subscribers("readings", timeout=30.0)
            for number in range(2):
                source.publish("readings", number)
                seen.append(running.line())

        outcome = command("watch", target, meanwhile=meanwhile)
    assert (outcome.status, outcome.err) == (130, "")
    assert outcome.out == "".join(seen)
    assert [line.split("  ")[-1] for line in seen] == ["0\n", "1\n"]


def test_a_command_that_ends_by_itself_is_not_interrupted() -> None:
    with Agent(name="source", discovery=False) as source:

        def meanwhile(running: Running) -> None:
            source.wait_for_subscribers("readings", timeout=30.0)
            source.publish("readings", 1)
            assert running.wait(30.0)

        outcome = command("watch", f"{source.rep_endpoint}/readings", "--count", "1", meanwhile=meanwhile)
    assert (outcome.status, outcome.err) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_is_stopped_by_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "bench.py").write_text(SERVED.format(value=1))

    def meanwhile(running: Running) -> None:
        assert running.line().startswith("psu serves Supply at tcp://127.0.0.1:")
        running.kill(number)
        assert running.wait(30.0)

    outcome = command("serve", "bench:Supply", "--name", "psu", cwd=tmp_path, meanwhile=meanwhile)
    assert (outcome.status, outcome.err) == (0, "")


def test_modules_of_the_folder_are_read_anew(tmp_path: Path) -> None:
    for value in ("one", "two"):
        (tmp_path / value).mkdir()
        (tmp_path / value / "bench.py").write_text(f"class {value.title()}: pass")
        outcome = command(
            "serve", f"bench:{value.title()}", cwd=tmp_path / value, meanwhile=lambda running: running.line()
        )
        assert outcome.out.startswith(f"{value.title()} serves {value.title()} ")
    assert "bench" not in sys.modules


def test_handlers_of_signals_and_logs_are_put_back() -> None:
    def handlers() -> object:
        return (
            signal.getsignal(signal.SIGINT),
            signal.getsignal(signal.SIGTERM),
            logging.getLogger().handlers[:],
        )

    before = handlers(), logging.getLogger().level, sys.stdout, sys.stderr
    command("--debug", "ping", "tcp://127.0.0.1:1", "--timeout", "0.1")
    assert (handlers(), logging.getLogger().level, sys.stdout, sys.stderr) == before


def test_a_warning_is_on_stderr_once() -> None:
    with Agent(name="psu", discovery=False) as psu:
        outcome = command(
            "ping",
            psu.rep_endpoint,
            environment={"PZC_SRE": "json", "PZC_KEY": "the key of another laboratory"},
        )
    assert outcome.err.count("did you mean PZC_SER?") == 1


def test_what_fails_beside_a_command_ends_it_and_is_raised() -> None:
    with Agent(name="source", discovery=False) as source:

        def meanwhile(running: Running) -> None:
            assert source.wait_for_subscribers("x", timeout=30.0)
            running.line(0.05)

        with pytest.raises(ReceiveTimeout, match="wrote no line"):
            command("watch", f"{source.rep_endpoint}/x", meanwhile=meanwhile)


def test_only_the_main_thread_can_be_interrupted() -> None:
    told: list[BaseException] = []

    def run() -> None:
        try:
            command("version", meanwhile=lambda running: None)
        except RuntimeError as exc:
            told.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "main thread" in str(told[0])


def test_a_command_runs_in_any_thread() -> None:
    told: list[int] = []
    thread = threading.Thread(target=lambda: told.append(command("version").status))
    thread.start()
    thread.join()
    assert told == [0]
