from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, ConfigError, PeerLost, Protocol, SignatureError
from pzc.agents.client.dialling import MOST, dial, settle
from pzc.agents.client.named_client import expecting

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT


@pytest.fixture
def agents() -> Iterator[tuple[Agent, Agent]]:
    with Agent(protocol=Protocol(KEY)) as ours, Agent(protocol=Protocol(KEY), name="psu") as theirs:
        yield ours, theirs


@pytest.fixture
def refused() -> Iterator[str]:
    """A port that is bound, and that nobody listens at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"tcp://127.0.0.1:{listening.getsockname()[1]}"


def test_the_only_address_is_returned_as_it_is(refused: str) -> None:
    assert dial([refused, refused], 1.0) == refused


def test_the_first_of_two_good_addresses_is_chosen(agents: tuple[Agent, Agent]) -> None:
    first, second = (agent.rep_endpoint for agent in agents)
    assert dial([first, second], 10.0) == first


def test_who_is_dialled_takes_nobody_for_a_stranger(agents: tuple[Agent, Agent]) -> None:
    ours, theirs = agents
    for _ in range(3):
        dial([theirs.rep_endpoint, ours.rep_endpoint], 10.0)
    assert ours.request(theirs.rep_endpoint, "ping") == "pong"
    assert theirs.counters["rep_strangers"] == 0


def test_an_address_that_refuses_is_passed_over(agents: tuple[Agent, Agent], refused: str) -> None:
    assert dial([refused, agents[1].rep_endpoint], 10.0) == agents[1].rep_endpoint


def test_an_open_port_that_is_silent_is_passed_over(agents: tuple[Agent, Agent], silent: str) -> None:
    assert dial([silent, agents[1].rep_endpoint], 10.0) == agents[1].rep_endpoint


def test_many_silent_ports_hold_up_nobody_for_longer_than_the_timeout(silent: str) -> None:
    host, _, _ = silent.rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as other:
        with pytest.raises(PeerLost, match="no answer"):
            dial([silent, f"{host}:{other.getsockname()[1]}"], 0.5)


def test_what_is_no_agent_is_passed_over_with_the_reason(refused: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        web = f"tcp://127.0.0.1:{listening.getsockname()[1]}"

        def greet() -> None:
            accepted, _ = listening.accept()
            with accepted:
                accepted.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        greeter = threading.Thread(target=greet)
        greeter.start()
        with pytest.raises(PeerLost) as caught:
            dial([refused, web], 10.0)
        greeter.join()
    assert f"{refused}: connection refused" in str(caught.value)
    assert f"{web}: something else than an agent is there" in str(caught.value)


def test_a_forwarder_for_a_host_that_is_gone_is_passed_over(agents: tuple[Agent, Agent]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        forwarder = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        hang_up = threading.Thread(target=lambda: listening.accept()[0].close())
        hang_up.start()
        assert dial([forwarder, agents[1].rep_endpoint], 10.0) == agents[1].rep_endpoint
        hang_up.join()


def test_another_agent_at_the_first_address_is_passed_over(agents: tuple[Agent, Agent]) -> None:
    ours, theirs = agents
    with Agent(protocol=Protocol(KEY), name="other") as other:
        meet = expecting(ours.client, theirs.agent_id)
        assert dial([other.rep_endpoint, theirs.rep_endpoint], 10.0, meet) == theirs.rep_endpoint
        with pytest.raises(PeerLost, match="another agent answers there, other"):
            dial([other.rep_endpoint], 10.0, meet)


def test_an_agent_with_another_key_is_passed_over(agents: tuple[Agent, Agent]) -> None:
    ours, theirs = agents
    with Agent(protocol=Protocol("a long secret of another key")) as stranger:
        found = dial([stranger.rep_endpoint, theirs.rep_endpoint], 10.0, expecting(ours.client, ""))
    assert found == theirs.rep_endpoint


def test_a_key_that_differs_is_told_when_nobody_else_answers(
    agents: tuple[Agent, Agent], refused: str
) -> None:
    with Agent(protocol=Protocol("a long secret of another key")) as stranger:
        for addresses in ([stranger.rep_endpoint], [stranger.rep_endpoint, refused]):
            with pytest.raises(SignatureError, match="keys differ"):
                dial(addresses, 10.0, expecting(agents[0].client, ""))


def test_an_address_that_is_no_ip_address_is_met_without_a_connection(
    agents: tuple[Agent, Agent], refused: str
) -> None:
    named = agents[1].rep_endpoint.replace("127.0.0.1", "localhost")
    assert dial([refused, named], 10.0, expecting(agents[0].client, agents[1].agent_id)) == named


def test_an_ipv6_address_is_dialled(agents: tuple[Agent, Agent], refused: str) -> None:
    with Agent("tcp://[::1]:0", protocol=Protocol(KEY)) as six:
        meet = expecting(agents[0].client, six.agent_id)
        assert dial([refused, six.rep_endpoint], 10.0, meet) == six.rep_endpoint


def test_more_addresses_than_an_agent_has_are_left_out(refused: str) -> None:
    _, _, port = refused.rpartition(":")
    many = [f"tcp://127.0.{number}.1:{port}" for number in range(MOST + 1)]
    with pytest.raises(PeerLost) as caught:
        dial(many, 10.0)
    assert str(caught.value).count("tcp://") == MOST


def test_no_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="without any address"):
        dial([], 1.0)


def test_an_address_that_cannot_be_used_is_refused(refused: str) -> None:
    with pytest.raises(ConfigError, match="is not an endpoint"):
        dial([refused, "udp://127.0.0.1:1"], 1.0)


def test_whoever_needs_a_name_waits_for_the_look_up_that_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, answered, ended = list[str](), threading.Event(), threading.Event()

    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        answered.wait()
        ended.set()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    for _ in range(3):
        settle("tcp://far.example:5555", 0.0, threading.Event())
    assert asked == ["far.example"]
    answered.set()
    assert ended.wait(TIMEOUT)
    wait_until(lambda: settle("tcp://far.example:5555", 0.0, threading.Event()) is None and len(asked) > 1)
