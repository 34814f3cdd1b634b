"""``pzc metrics``: what Prometheus is told."""

from __future__ import annotations

import json
import signal
import socket
import urllib.request

from pzc.testing import Running

from tests.contract.rigs.console import Console


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


def test_off_loopback_it_is_refused_without_certificates(bench: Console) -> None:
    outcome = bench("metrics", "--host", "0.0.0.0", "--port", "0")
    assert outcome.status == 2
    assert "--certificate" in outcome.err


def test_a_port_that_somebody_else_has_is_told(bench: Console) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        outcome = bench("metrics", "psu", "--port", str(port))
    assert outcome.status == 1
    assert f"BindError: metrics cannot be at 127.0.0.1:{port}" in outcome.err
    assert "--port" in outcome.err
