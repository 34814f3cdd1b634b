"""A server that only its own machine reaches says so, to whoever looks for it from another one, and in its log."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

import pzc

SERVING = """
import logging, sys
import pzc

class Supply:
    voltage = 1.0

logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="%(message)s")
with pzc.Server(Supply(), name="psu"):
    print("up", flush=True)
    sys.stdin.readline()
"""


def outer_address() -> str:
    """An address of this machine by which others reach it; empty without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        address = str(probe.getsockname()[0])
    return "" if address.startswith("127.") else address


def test_a_server_on_loopback_that_is_looked_for_from_elsewhere_says_so_on_both_sides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = outer_address()
    if not address:
        pytest.skip("this machine has no address but loopback")
    monkeypatch.setenv("PZC_IP", address)  # so neither hears the other inside the machine
    command = [sys.executable, "-c", SERVING]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        with pytest.raises(pzc.UnknownName, match=rf"psu is there, on host {socket.gethostname()}.*--bind"):
            pzc.Proxy("psu", timeout=2.0)
        child.stdin.write("\n")
        child.stdin.close()
        logged = child.stdout.read()
    assert logged.count("/psu was looked for from another machine") == 1
    assert "--bind" in logged


def test_a_server_on_loopback_that_is_found_inside_its_machine_says_nothing() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        with pzc.Proxy("psu") as proxy:
            assert proxy.voltage == 1.0
        with pytest.raises(pzc.UnknownName):  # until which an answer would have been given
            pzc.Proxy("dac", timeout=0.5)
        child.stdin.write("\n")
        child.stdin.close()
        assert child.stdout.read() == ""
