"""``pzc monitor``: who may look at the page and act with it, and what becomes of that."""

from __future__ import annotations

import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect
from websockets.typing import Origin

from pzc import Agent, LockedBy, Protocol, Proxy, close

from tests.contract.rigs.console import KEY, Console
from tests.contract.rigs.monitoring import Monitor, certificate, keyring
from tests.contract.rigs.programs import PATIENCE


@pytest.fixture(scope="module")
def shown(bench: Console) -> Iterator[Monitor]:
    """A monitor that only shows."""
    with Monitor(bench) as monitor:
        monitor.await_agent("psu")
        yield monitor


@pytest.fixture(scope="module")
def operated(bench: Console, folder: Path) -> Iterator[Monitor]:
    """A monitor with which alice acts; she is in."""
    alice = keyring(folder, "alice", KEY)
    with Monitor(bench, "--operator", f"alice={alice}", "--audit", str(folder / "page.audit")) as monitor:
        monitor.enter("alice")
        monitor.await_agent("psu")
        yield monitor


@pytest.fixture
def psu(bench: Console) -> Iterator[Any]:
    proxy = Proxy(bench.endpoint, protocol=Protocol(KEY))
    yield proxy
    close(proxy)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--host", "0.0.0.0"], "--certificate"),
        (["--host", "192.0.2.7", "--certificate", "a.pem"], "belong together"),
        (["--operator", "alice"], "NAME=KEYRING"),
        (["--lab", "nofile.toml"], "there is no lab file nofile.toml"),
    ],
)
def test_what_would_not_be_safe_is_refused_with_what_to_do(
    bench: Console, arguments: list[str], told: str
) -> None:
    outcome = bench("monitor", "--port", "0", *arguments)
    assert outcome.status == 2
    assert told in outcome.err


def test_a_key_of_an_observer_makes_no_operator(bench: Console, folder: Path) -> None:
    outcome = bench(
        "monitor", "--port", "0", "--operator", f"wall={keyring(folder, 'wall', KEY, 'observer')}"
    )
    assert outcome.status == 1
    assert "is of no operator" in outcome.err


def test_every_answer_forbids_what_the_page_does_not_need(shown: Monitor) -> None:
    for path in ("/", "/static/main.js", "/session", "/nothing"):
        headers = shown.ask("GET", path)[1]
        assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")


def test_the_page_holds_no_script_and_no_style_of_its_own(shown: Monitor) -> None:
    text = shown.ask("GET", "/")[2]
    assert "<script type" in text
    assert all(part not in text for part in ("style=", "onclick", "<style", "javascript:"))
    assert "<script>" not in text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", ""])
def test_a_request_from_another_page_is_refused(operated: Monitor, psu: Any, origin: str) -> None:
    before = psu.voltage
    body = {"agent": "psu", "do": "set", "path": "voltage", "value": "29"}
    assert operated.ask("POST", "/act", body, Origin=origin)[0] == 403
    assert psu.voltage == before


def test_a_page_of_another_name_that_leads_here_is_refused(shown: Monitor) -> None:
    status, _, told = shown.ask("GET", "/session", Host="evil.example")
    assert status == 403
    assert "evil.example" in told["error"]
    assert "--name" in told["error"]


def test_who_only_looks_cannot_act(shown: Monitor, psu: Any) -> None:
    before = psu.voltage
    status, told = shown.act("psu", "set", path="voltage", value="29")
    assert (status, "--operator" in told["error"]) == (403, True)
    assert psu.voltage == before


def test_with_operators_nothing_is_told_without_a_token(bench: Console, folder: Path) -> None:
    with Monitor(bench, "--operator", f"alice={keyring(folder, 'alice', KEY)}") as monitor:
        assert monitor.ask("GET", "/session")[0] == 401
        assert monitor.ask("GET", "/panel?agent=psu")[0] == 401
        assert monitor.act("psu", "set", path="voltage", value="1")[0] == 401
        assert monitor.ask("POST", "/login", {"token": "guessed" * 5})[0] == 401


def test_one_browser_is_in_two_pages_of_a_machine_at_a_time(
    operated: Monitor, bench: Console, folder: Path
) -> None:
    with Monitor(bench, "--operator", f"bob={keyring(folder, 'bob', KEY)}") as other:
        other.enter("bob")
        jar = dict(each.cookie.split("=", 1) for each in (operated, other))
        both = "; ".join(f"{name}={value}" for name, value in jar.items())
        told = [each.ask("GET", "/session", Cookie=both)[2] for each in (operated, other)]
    assert [each.get("user") for each in told] == ["alice", "bob"]


def test_what_an_operator_sets_is_set_in_the_server_and_stands_in_the_audit_log(
    operated: Monitor, psu: Any, folder: Path
) -> None:
    assert operated.act("psu", "set", path="voltage", value="4.5") == (200, {"result": None})
    assert psu.voltage == 4.5
    lines = [json.loads(line) for line in (folder / "page.audit").read_text().splitlines()]
    assert any(
        (line["user"], line["do"], line["member"], line["given"], line["outcome"])
        == ("alice", "set", "voltage", "4.5", "ok")
        for line in lines
    )


def test_what_was_done_is_told_as_done_where_the_audit_log_cannot_be_written(
    bench: Console, folder: Path, psu: Any
) -> None:
    alice = keyring(folder, "alice", KEY)
    with Monitor(bench, "--operator", f"alice={alice}", "--audit", "/dev/full") as monitor:
        monitor.enter("alice")
        monitor.await_agent("psu")
        assert monitor.act("psu", "set", path="voltage", value="5.5") == (200, {"result": None})
    assert psu.voltage == 5.5


def test_what_the_instrument_refuses_is_told(operated: Monitor) -> None:
    status, told = operated.act("psu", "set", path="voltage", value="99")
    assert status == 409
    assert "outside 0..30" in told["error"]


def test_arguments_reach_a_method_by_place_and_name(operated: Monitor) -> None:
    status, told = operated.act("psu", "call", path="arguments", args=["1", "on"], kwargs={"x": "[2]"})
    assert (status, told["result"]["value"]) == (200, [[1, "on"], {"x": [2]}])


def test_what_is_done_with_halves_of_characters_is_told_as_done(operated: Monitor) -> None:
    status, told = operated.act("psu", "call", path="arguments", args=[r"'x\udc80'"])
    assert (status, told["result"]["value"]) == (200, [["x\udc80"], {}])


def test_no_secret_that_was_an_argument_stands_in_the_audit_log(operated: Monitor, folder: Path) -> None:
    given = {"args": ["password", "hunter2"], "kwargs": {"token": "hunter3", "x": "7"}}
    assert operated.act("psu", "call", path="arguments", **given)[0] == 200
    written = (folder / "page.audit").read_text()
    assert ("hunter2" in written, "hunter3" in written) == (False, False)
    assert "{'token': '***', 'x': '7'}" in written


def test_a_lock_that_is_taken_on_the_page_keeps_others_out_until_it_is_given_back(
    operated: Monitor, psu: Any
) -> None:
    assert operated.act("psu", "lock", reason="test")[0] == 200
    try:
        with pytest.raises(LockedBy):
            psu.voltage = 1.0
        assert operated.act("psu", "set", path="voltage", value="2")[0] == 200
    finally:
        assert operated.act("psu", "unlock")[0] == 200
    psu.voltage = 1.0


def test_a_private_member_is_not_reached(operated: Monitor) -> None:
    assert operated.act("psu", "call", path="_work.set")[0] == 409
    assert operated.ask("GET", "/panel?agent=psu&path=__class__")[0] == 502


def test_whoever_asks_half_a_thing_or_nothing_is_hung_up_on(shown: Monitor) -> None:
    host, _, port = shown.host.partition(":")
    for said in (b"", b"GET /session HTTP/1.1\r\nHost: "):
        with socket.create_connection((host, int(port)), PATIENCE) as connection:
            connection.sendall(said)
            assert connection.recv(100) == b""
    answered = shown.ask("POST", "/login", None, Content_Length="9")
    assert answered[0] == 408


def test_a_certificate_that_cannot_be_used_is_told_before_the_address(bench: Console) -> None:
    outcome = bench("monitor", "--port", "0", "--certificate", "bench.py", "--private-key", "bench.py")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "bench.py cannot be used for TLS" in outcome.err


def test_a_long_body_and_an_unknown_verb_are_refused(operated: Monitor) -> None:
    assert operated.act("psu", "set", path="voltage", value="1" * 70_000)[0] == 413
    assert operated.act("psu", "explode")[0] == 400


def test_a_publisher_that_waits_for_readers_does_not_take_the_monitor_for_one(bench: Console) -> None:
    with Agent(name="waiting", protocol=Protocol(KEY)) as source, Agent(protocol=Protocol(KEY)) as reader:
        with reader.subscribe(source.rep_endpoint, "readings"), Monitor(bench, source.rep_endpoint):
            assert not source.wait_for_subscribers("readings", 2, timeout=3.0)
            source.publish("readings", 1.0)
            assert source.wait_for_subscribers("readings", 2, timeout=20.0)


def test_a_panel_tells_units_and_documentation(shown: Monitor) -> None:
    panel = shown.ask("GET", "/panel?agent=psu")[2]
    voltage = next(each for each in panel["controls"] if each["name"] == "voltage")
    assert (voltage["kind"], voltage["unit"], voltage["writable"]) == ("value", "V", True)
    assert voltage["doc"] == "Programmed voltage in volts."


def test_off_loopback_everybody_needs_a_token_and_the_cookie_goes_by_tls_only(
    bench: Console, folder: Path
) -> None:
    made, key = certificate(folder)
    place = (
        "--host",
        "0.0.0.0",
        "--name",
        "127.0.0.1",
        "--certificate",
        str(made),
        "--private-key",
        str(key),
    )
    with Monitor(bench, *place) as monitor:
        assert monitor.address.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(made))
        asked = urllib.request.Request(f"{monitor.address}session")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(asked, timeout=PATIENCE, context=context)
        token = monitor.users["viewer"].partition("#token=")[2]
        headers = {"Content-Type": "application/json", "Origin": monitor.address.rstrip("/")}
        body = json.dumps({"token": token}).encode()
        login = urllib.request.Request(f"{monitor.address}login", body, headers)
        with urllib.request.urlopen(login, timeout=PATIENCE, context=context) as answer:
            cookie = answer.headers["set-cookie"]
        assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=strict"))


def test_who_has_left_is_told_nothing_more(bench: Console, folder: Path) -> None:
    with Monitor(bench, "--operator", f"alice={keyring(folder, 'alice', KEY)}") as monitor:
        monitor.enter("alice")
        page = connect(
            f"ws://{monitor.host}/events",
            origin=Origin(monitor.address.rstrip("/")),
            additional_headers={"Cookie": monitor.cookie},
        )
        with page:
            assert "now" in json.loads(page.recv(PATIENCE))
            assert monitor.ask("POST", "/logout", {"all": True})[0] == 200
            assert len(list(islice(page, 100))) < 100


def test_a_websocket_of_another_page_is_refused(operated: Monitor) -> None:
    upgrade: dict[str, Any] = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }  # fmt: skip
    assert operated.ask("GET", "/events", None, Origin="http://evil.example", **upgrade)[0] == 403


def test_the_pages_of_one_user_leave_room_for_those_of_another(bench: Console, folder: Path) -> None:
    users = [f"{name}={keyring(folder, name, KEY)}" for name in ("carol", "dave")]
    with Monitor(bench, "--operator", users[0], "--operator", users[1]) as monitor, ExitStack() as stack:
        monitor.enter("carol")
        assert {stack.enter_context(monitor.page()) for _ in range(70)} == {101, 403}
        monitor.enter("dave")
        assert stack.enter_context(monitor.page()) == 101
