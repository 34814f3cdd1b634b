from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq

from pzc import (
    Agent,
    AgentClosed,
    CallTimeout,
    PeerLost,
    Protocol,
    SerializeError,
    SignatureError,
    UnknownName,
)

from tests.contract.rigs.calling import KEY, TIMEOUT, Middle, counts, in_thread
from tests.contract.rigs.gated import Gated, places
from tests.contract.rigs.peers import run_threads


@pytest.mark.parametrize("key", ["", KEY])
@pytest.mark.parametrize("transport", ["tcp", "ipc", "inproc"])
def test_a_request_is_answered_over_every_transport(tmp_path: Path, transport: str, key: str) -> None:
    rep, pub = places(tmp_path)[transport]
    with Agent(rep, pub, protocol=Protocol(key)) as agent, Agent(protocol=Protocol(key)) as client:
        assert client.request(agent.rep_endpoint, {"a": [1, 2.5, None]}) == {"a": [1, 2.5, None]}


@pytest.mark.parametrize("transport", ["tcp", "ipc", "inproc"])
def test_a_stopped_agent_has_given_its_endpoints_back(tmp_path: Path, transport: str) -> None:
    rep, pub = places(tmp_path)[transport]
    with Agent():  # keeps the I/O thread
        for _ in range(100):
            with Agent(rep, pub) as agent:
                rep, pub = agent.rep_endpoint, agent.pub_endpoint


@pytest.mark.parametrize("serializer", ["pickle", "pickle2", "json", "msgpack"])
@pytest.mark.parametrize("content", [np.arange(6).reshape(2, 3), np.zeros(100_000)], ids=["small", "large"])
def test_an_array_is_content_like_any_other(serializer: str, content: np.ndarray) -> None:
    with Agent() as agent, Agent(protocol=Protocol(serializer=serializer)) as client:
        assert np.array_equal(client.request(agent.rep_endpoint, content), content)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_arrays_in_a_list_are_not_compared_with_words(width: int) -> None:
    with Agent() as agent, Agent() as client:
        answer = client.request(agent.rep_endpoint, [np.arange(3)] * width)
    assert len(answer) == width


@pytest.mark.needs("unix")
def test_info_and_ping_are_answered_while_a_request_runs() -> None:
    with Gated(name="psu") as agent, Agent() as client:
        thread, _ = in_thread(lambda: client.request(agent.rep_endpoint, "slow", TIMEOUT))
        assert agent.entered.wait(TIMEOUT)
        expected = {
            "rep_endpoint": agent.rep_endpoint, "pub_endpoint": agent.pub_endpoint, "name": "psu",
            "stream_endpoint": agent.stream_endpoint, "stream_name": f"pzc/stream/{agent.agent_id}",
            "lane": f"pzc/{agent.agent_id}", "lock": None,
        }  # fmt: skip
        assert client.request(agent.rep_endpoint, "info", TIMEOUT) == expected
        assert client.request(agent.rep_endpoint, "ping", TIMEOUT) == "pong"
        agent.opened.set()
        thread.join(TIMEOUT)


def test_requests_run_one_at_a_time_in_the_order_of_one_client() -> None:
    with Gated() as agent, Agent() as client:
        peer = client.peer(agent.rep_endpoint)
        futures = [client.exchange_later(peer, number, TIMEOUT) for number in range(200)]
        assert [future.result(TIMEOUT).content for future in futures] == list(range(200))
        assert agent.answered == list(range(200))


def test_many_threads_get_their_own_answers() -> None:
    with Agent() as agent, Agent() as client, ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda number: client.request(agent.rep_endpoint, number, TIMEOUT), range(1600))
        assert list(answers) == list(range(1600))


def test_nobody_there_is_peer_lost_within_the_timeout() -> None:
    with Agent() as gone:
        endpoint = gone.rep_endpoint
    with Agent() as client, pytest.raises(PeerLost, match=f"{endpoint} cannot be reached"):
        client.request(endpoint, 7, timeout=0.1)


def test_nobody_answering_is_call_timeout_and_names_the_peer() -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as silent, Agent() as client:
        silent.bind("tcp://127.0.0.1:*")
        endpoint = silent.getsockopt_string(zmq.LAST_ENDPOINT)
        with pytest.raises(CallTimeout, match=f"no reply from {endpoint} within 0.1 s"):
            client.request(endpoint, 7, timeout=0.1)


def test_a_slow_request_times_out_and_the_next_one_does_not_get_its_answer() -> None:
    with Gated() as agent, Agent() as client:
        with pytest.raises(CallTimeout):
            client.request(agent.rep_endpoint, "slow", timeout=0.1)
        agent.opened.set()
        assert client.request(agent.rep_endpoint, "next", TIMEOUT) == "next"
        assert agent.answered == ["slow", "next"]


def test_a_reply_is_not_accepted_for_another_request() -> None:
    kept: list[list[bytes]] = []

    def alter(way: str, number: int, frames: list[bytes]) -> list[list[bytes]]:
        if way == "request" or number < 2:
            return [frames]
        kept.append(frames)
        return [kept[0]]  # the answer to the first question, whatever is asked

    for key in ("", KEY):
        kept.clear()
        protocol = Protocol(key)
        with (
            Agent(protocol=protocol) as agent,
            Middle(agent.rep_endpoint, alter) as middle,
            Agent(protocol=Protocol(key)) as client,
        ):
            assert client.request(middle.endpoint, "first", TIMEOUT) == "first"
            with pytest.raises(CallTimeout):
                client.request(middle.endpoint, "second", timeout=0.2)
            assert counts(client)["replies_unexpected"] == 1


@pytest.mark.usefixtures("beside_originals")
def test_the_reply_of_a_pzc00_peer_is_not_accepted_for_another_request() -> None:
    kept: list[list[bytes]] = []

    def alter(way: str, number: int, frames: list[bytes]) -> list[list[bytes]]:
        if way == "request" or number < 2:
            return [frames]
        kept.append(frames)
        return [kept[0]]

    with (
        Agent(protocol=Protocol(KEY)) as agent,
        Middle(agent.rep_endpoint, alter) as middle,
        Agent(protocol=Protocol(KEY, dialect="PZC00")) as client,
    ):
        assert client.request(middle.endpoint, "first", TIMEOUT) == "first"
        with pytest.raises(CallTimeout):
            client.request(middle.endpoint, "second", timeout=0.2)


@pytest.mark.parametrize(
    ("client_key", "agent_key"),
    [(KEY, "another key of the lab"), (KEY, ""), ("", KEY)],
    ids=["other", "agent without", "without"],
)
@pytest.mark.parametrize("dialect", ["PZC01", "PZC00"])
def test_keys_that_differ_are_told_well_before_the_timeout(
    client_key: str, agent_key: str, dialect: str
) -> None:
    class Forbidden(Agent):
        def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
            if dialect == "PZC01" or agent_key:
                raise AssertionError("executed")
            return content

    with (
        Forbidden(protocol=Protocol(agent_key)) as agent,
        Agent(protocol=Protocol(client_key, dialect=dialect)) as client,
        pytest.raises(SignatureError, match=f"signature refused by {agent.rep_endpoint}: keys differ"),
    ):
        client.request(agent.rep_endpoint, 7, timeout=600.0)


def test_an_agent_that_comes_back_with_another_key_is_told_apart_too() -> None:
    with Agent(protocol=Protocol("a long secret of one")) as client:
        with Agent(protocol=Protocol("a long secret of one")) as first:
            endpoint = first.rep_endpoint
            client.request(endpoint, 7)
        with (
            Agent(endpoint, protocol=Protocol("a long secret of two")),
            pytest.raises(SignatureError, match=f"signature refused by {endpoint}: keys differ"),
        ):
            client.request(endpoint, 7, timeout=600.0)
        with Agent(endpoint, protocol=Protocol("a long secret of one")):
            assert client.request(endpoint, 7, TIMEOUT) == 7


def test_content_that_cannot_be_sent_is_an_error_here_and_costs_nothing() -> None:
    with Agent() as agent, Agent() as client:
        with pytest.raises(SerializeError):
            client.request(agent.rep_endpoint, threading.Lock())
        assert client.request(agent.rep_endpoint, 7) == 7


def test_an_agent_is_found_by_the_name_that_the_settings_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    with Agent() as agent:
        monkeypatch.setenv("PZC_PEERS", f"psu={agent.rep_endpoint}")
        with Agent() as client:
            assert client.request("psu", 7) == 7
            with pytest.raises(UnknownName, match="camera"):
                client.request("camera", 7)


def test_the_sender_and_the_message_id_reach_on_request() -> None:
    seen: list[tuple[str, str, str]] = []

    class Noting(Agent):
        def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
            seen.append((sender, topic, msgid))
            return content

    with Noting() as agent, Agent() as client:
        client.request(agent.rep_endpoint, 1)
        client.request(agent.rep_endpoint, 2)
    (sender, topic, first), (_, _, second) = seen
    assert (sender, topic) == (client.agent_id, "")
    assert first.startswith("urn:uuid:")
    assert first != second


def test_an_on_request_that_raises_is_answered_with_the_exception() -> None:
    class Failing(Agent):
        def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
            raise KeyError("gone")

    with Failing() as agent, Agent() as client:
        _, action, (detail, trace) = client.request(agent.rep_endpoint, 7)
    assert (action, detail["type"], detail["text"]) == ("raise", "builtins.KeyError", "'gone'")
    assert "KeyError: 'gone'" in trace[-1]


def test_a_remote_stop_is_answered_and_stops_the_agent() -> None:
    with Agent() as agent, Agent() as client:
        assert client.request(agent.rep_endpoint, "stop") == "stopping"
        assert agent.join(TIMEOUT)
        with pytest.raises(AgentClosed):
            agent.publish("t", 1)


def test_stop_from_inside_a_request_is_answered_and_stops_the_agent() -> None:
    class Stopping(Agent):
        def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
            self.stop()
            return "stopped myself"

    with Stopping() as agent, Agent() as client:
        assert client.request(agent.rep_endpoint, 7, TIMEOUT) == "stopped myself"
        assert agent.join(TIMEOUT)


def test_stop_in_the_io_thread_returns_and_stops_the_agent() -> None:
    agent = Agent()
    agent.loop.call(agent.stop)
    assert agent.join(TIMEOUT)


def test_stop_from_a_callback_stops_the_agent() -> None:
    with Agent() as publisher:
        agent = Agent()
        agent.subscribe(publisher.rep_endpoint, "t", lambda _: agent.stop())
        publisher.publish("t", 1)
        assert agent.join(TIMEOUT)


def test_stop_from_many_threads_at_once_stops_once() -> None:
    agent = Agent()
    threads = [threading.Thread(target=agent.stop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert agent.join(TIMEOUT)


def test_stop_answers_the_request_that_runs_and_refuses_those_that_wait() -> None:
    with Agent() as client:
        agent = Gated()
        running, first = in_thread(lambda: client.request(agent.rep_endpoint, "slow", TIMEOUT))
        assert agent.entered.wait(TIMEOUT)
        peer = client.peer(agent.rep_endpoint)
        waiting = [client.exchange_later(peer, number, TIMEOUT) for number in range(3)]
        assert (
            client.exchange_later(peer, "ping", TIMEOUT).result(TIMEOUT).content == "pong"
        )  # after the others
        stopping, _ = in_thread(agent.stop)
        for future in waiting:
            with pytest.raises(PeerLost, match="is being stopped; the request was not executed"):
                future.result(TIMEOUT)
        agent.opened.set()
        for thread in (stopping, running):
            thread.join(TIMEOUT)
        assert first == ["slow"]
        assert agent.answered == ["slow"]


@pytest.mark.needs("posix")
def test_a_path_at_which_no_socket_can_be_is_peer_lost_with_the_reason() -> None:
    with Agent() as agent, pytest.raises(PeerLost, match="name too long"):
        agent.request(f"ipc:///tmp/{'x' * 200}", "info")


def test_a_peer_that_cannot_be_met_is_peer_lost_and_nothing_of_its_kind() -> None:
    with Agent() as gone:
        endpoint = gone.rep_endpoint
    with Agent() as client:
        for ask in (lambda: client.peer(endpoint, 0.1), lambda: client.send(endpoint, 7, 0.1)):
            with pytest.raises(PeerLost) as caught:
                ask()
            assert type(caught.value) is PeerLost


def test_threads_that_are_the_first_to_ask_an_agent_shake_hands_once() -> None:
    with Agent(protocol=Protocol(KEY)) as asked, Agent(protocol=Protocol(KEY)) as asking:
        run_threads(*[lambda: asking.peer(asked.rep_endpoint, TIMEOUT)] * 8)
        assert counts(asked)["requests"] == 1


def test_whoever_waits_for_the_handshake_of_another_thread_waits_until_its_own_deadline() -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as silent, Agent() as asking:
        silent.bind("tcp://127.0.0.1:*")
        endpoint = silent.getsockopt_string(zmq.LAST_ENDPOINT)
        first, _ = in_thread(lambda: asking.peer(endpoint, TIMEOUT))
        assert silent.poll(int(TIMEOUT * 1000))
        with pytest.raises(CallTimeout, match="another thread's handshake"):
            asking.peer(endpoint, 0.01)
        asking.stop()
        first.join(TIMEOUT)
