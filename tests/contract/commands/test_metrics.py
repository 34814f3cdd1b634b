"""``pzc metrics``: what Prometheus is told."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pzc import Agent, Protocol, Proxy, close, lock
from pzc.testing import Running

from tests.contract.rigs.console import KEY, Console
from tests.contract.rigs.monitoring import certificate


def test_the_metrics_of_an_agent_are_printed(bench: Console) -> None:
    outcome = bench("metrics", "psu", "--once")
    assert (outcome.status, outcome.err) == (0, "")
    assert 'pzc_agent_up{agent="psu"} 1.0' in outcome.out
    assert 'pzc_calls_total{agent="psu"}' in outcome.out


def test_an_agent_that_is_not_there_is_down_and_trouble(bench: Console) -> None:
    out = bench("metrics", "tcp://127.0.0.1:9", "psu", "--once", "--timeout", "0.3").out
    assert 'pzc_agent_up{agent="tcp://127.0.0.1:9"} 0.0' in out
    assert 'pzc_agent_up{agent="psu"} 1.0' in out
    assert 'pzc_troubles{level="bad"} 1.0' in out


def test_a_lock_is_told_without_its_holder_of_whom_there_is_no_end(bench: Console) -> None:
    def told() -> list[str]:
        out = bench("metrics", "psu", "--once").out
        return [line for line in out.splitlines() if line.startswith("pzc_lock_held{")]

    assert told() == ['pzc_lock_held{agent="psu"} 0.0']
    psu = Proxy(bench.endpoint, protocol=Protocol(KEY))
    try:
        with lock(psu):
            assert told() == ['pzc_lock_held{agent="psu"} 1.0']
    finally:
        close(psu)


def test_prometheus_asks_over_http(bench: Console) -> None:
    def ask(running: Running) -> None:
        address = json.loads(running.line())["metrics"]
        with urllib.request.urlopen(address, timeout=10) as answer:
            found.append(answer.read().decode())
        running.kill(signal.SIGTERM)

    found: list[str] = []
    outcome = bench("metrics", "psu", "--port", "0", "--json", meanwhile=ask)
    assert outcome.status == 0
    assert "# TYPE pzc_agent_up gauge" in found[0]


def test_metrics_asked_for_by_a_foreign_name_are_refused(bench: Console) -> None:
    def ask(running: Running) -> None:
        address = json.loads(running.line())["metrics"]
        for host in ("evil.example", "", urlsplit(address).netloc):
            asked = urllib.request.Request(address, headers={"Host": host})
            try:
                with urllib.request.urlopen(asked, timeout=10) as answer:
                    found.append(answer.status)
            except urllib.error.HTTPError as refused:
                found.append(refused.code)
        running.kill(signal.SIGTERM)

    found: list[int] = []
    bench("metrics", "psu", "--port", "0", "--json", meanwhile=ask)
    assert found == [403, 403, 200]


def test_the_newest_number_of_a_topic_is_told(bench: Console) -> None:
    def ask(running: Running) -> None:
        address = json.loads(running.line())["metrics"]
        for _ in range(300):
            source.publish("pressure", 7.5)
            with urllib.request.urlopen(address, timeout=10) as answer:
                found.append(answer.read().decode())
            if "pzc_value{" in found[-1]:
                break
        running.kill(signal.SIGTERM)

    found: list[str] = []
    with Agent(name="gauge", protocol=Protocol(KEY)) as source:
        source.publish("pressure", 7.5)
        outcome = bench(
            "metrics", source.rep_endpoint, "--port", "0", "--every", "0.1", "--json", meanwhile=ask
        )
    assert outcome.status == 0
    assert f'pzc_value{{agent="{source.rep_endpoint}",topic="pressure"}} 7.5' in found[-1]


def test_off_loopback_it_is_refused_without_certificates(bench: Console) -> None:
    outcome = bench("metrics", "--host", "0.0.0.0", "--port", "0")
    assert outcome.status == 2
    assert "--certificate" in outcome.err


def test_who_connects_and_says_nothing_keeps_nobody_from_the_metrics(bench: Console, folder: Path) -> None:
    def ask(running: Running) -> None:
        address = json.loads(running.line())["metrics"]
        stack.enter_context(socket.create_connection(("127.0.0.1", urlsplit(address).port or 0)))
        with urllib.request.urlopen(address, timeout=10, context=context) as answer:
            found.append(answer.read().decode())
        running.kill(signal.SIGTERM)

    found: list[str] = []
    made, key = map(str, certificate(folder))
    context = ssl.create_default_context(cafile=made)
    context.load_cert_chain(made, key)
    secure = ("--certificate", made, "--private-key", key, "--client-ca", made)
    with ExitStack() as stack:
        outcome = bench("metrics", "psu", "--port", "0", "--json", *secure, meanwhile=ask)
    assert (outcome.status, outcome.err) == (0, "")
    assert "# TYPE pzc_agent_up gauge" in found[0]


def test_a_port_that_is_taken_is_named(bench: Console) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = taken.getsockname()
        outcome = bench("metrics", "psu", "--port", str(place[1]))
    assert outcome.status == 1
    assert f"BindError: metrics cannot be at 127.0.0.1:{place[1]}: " in outcome.err


@pytest.mark.needs("posix")
def test_who_watches_may_have_as_many_descriptors_as_the_system_lets(bench: Console) -> None:
    program = (
        "import resource; from pzc.console.main import main; "
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)); "
        "main(['metrics', '--once', '--timeout', '0.2', 'tcp://127.0.0.1:9']); "
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard > 64)"
    )
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "True"
