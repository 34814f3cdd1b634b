from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import zmq

from pzc import Agent, BindError, ConfigError, block, drop, latest
from pzc.transport import endpoints

from tests.contract.rigs.peers import TIMEOUT


@pytest.fixture
def router() -> Iterator[zmq.Socket[bytes]]:
    context = zmq.Context()
    yield endpoints.new_socket(context, zmq.ROUTER)
    context.destroy(0)


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp://127.0.0.1:0",
        "tcp://*:5555",
        "tcp://127.0.0.1:*",
        "tcp://lab-a:65535",
        "tcp://[::]:0",
        "tcp://[fd00::1]:5555",
        "tcp://[fe80::1%eth0]:5555",
        "ipc:///tmp/a",
        "inproc://a",
    ],
)
def test_an_endpoint_that_can_be_used_passes(endpoint: str) -> None:
    assert endpoints.check(endpoint) == endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        "", "psu", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://:5555", "tcp://127.0.0.1:x",
        "tcp://127.0.0.1:65536", "tcp://127.0.0.1:99999", "udp://127.0.0.1:1", "ipc://", "inproc://", "inproc://a+b",
        "ipc:///tmp/a+b", " tcp://127.0.0.1:1", 5, None, "tcp://::1:5555", "tcp://fd00::1:5555", "tcp://[fd00::1:5555",
        "tcp://[127.0.0.1]:5555", "tcp://[lab-a]:5555",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_what_was_expected(endpoint: object) -> None:
    with pytest.raises(ConfigError, match="expected tcp://ADDRESS:PORT"):
        endpoints.check(endpoint)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("target", ["tcp://127.0.0.1", "tcp://127.0.0.1:70000", "udp://127.0.0.1:1"])
def test_a_target_that_is_nearly_an_endpoint_is_refused_before_anything_is_sent(target: str) -> None:
    with Agent() as agent, pytest.raises(ConfigError, match="is not an endpoint"):
        agent.request(target, "info")


def test_port_zero_becomes_a_real_port(router: zmq.Socket[bytes]) -> None:
    bound = endpoints.bind(router, "tcp://127.0.0.1:0")
    assert int(bound.removeprefix("tcp://127.0.0.1:")) > 0


def test_a_wildcard_path_becomes_a_real_path(router: zmq.Socket[bytes]) -> None:
    bound = endpoints.bind(router, "ipc://*")
    assert Path(bound.removeprefix("ipc://")).is_socket()


def test_a_port_in_use_is_named_with_the_reason_and_a_way_out() -> None:
    with Agent() as agent, pytest.raises(BindError) as caught:
        Agent(agent.rep_endpoint)
    assert agent.rep_endpoint in str(caught.value)
    assert "address already in use; another program uses it, or an agent of this one" in str(caught.value)


def test_the_pub_endpoint_is_named_when_it_is_the_one_in_use() -> None:
    with Agent() as agent, pytest.raises(BindError, match=agent.pub_endpoint):
        Agent(pub_endpoint=agent.pub_endpoint)


def test_a_port_of_another_program_is_in_use_too() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BindError, match=f"127.0.0.1:{port}: address already in use"):
            Agent(f"tcp://127.0.0.1:{port}")


def test_an_address_of_no_interface_is_named() -> None:
    with pytest.raises(
        BindError, match=r"tcp://192\.0\.2\.1:0.*no interface of this machine has that address"
    ):
        Agent("tcp://192.0.2.1:0")


def test_a_missing_folder_is_named_as_it_was_written(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/Missing/Agent"
    with pytest.raises(BindError) as caught:
        Agent(endpoint)
    assert str(caught.value) == f"cannot bind {endpoint}: no such file or directory"


def test_a_path_that_is_too_long_is_named(tmp_path: Path) -> None:
    with pytest.raises(BindError, match="too long"):
        Agent(f"ipc://{tmp_path}/{'x' * 200}")


def test_an_ipc_path_that_another_agent_serves_is_not_taken_from_it(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/agent"
    with Agent(endpoint, name="first") as first, Agent() as client:
        with pytest.raises(BindError, match="address already in use"):
            Agent(endpoint, name="second")
        assert client.peer(endpoint).agent_id == first.agent_id


def test_an_ipc_path_that_a_dead_process_left_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert path.is_socket()
    with Agent(f"ipc://{path}") as agent:
        assert agent.request(agent.rep_endpoint, "ping") == "pong"


def test_a_file_that_is_no_socket_is_not_taken_for_one_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "scan.h5"
    path.write_bytes(b"measured")
    with pytest.raises(BindError, match="has that path"):
        Agent(f"ipc://{path}")
    assert path.read_bytes() == b"measured"


def test_an_ipc_path_at_which_many_wait_to_be_taken_is_not_taken_from_whoever_is_slow(tmp_path: Path) -> None:
    path = str(tmp_path / "agent")
    with ExitStack() as sockets:
        slow = sockets.enter_context(socket.socket(socket.AF_UNIX))
        slow.bind(path)
        slow.listen(0)
        with suppress(BlockingIOError):
            while True:
                waiting = sockets.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(path)
        with pytest.raises(BindError, match="address already in use"):
            Agent(f"ipc://{path}")


def test_an_inproc_name_in_use_is_refused() -> None:
    with Agent("inproc://taken"), pytest.raises(BindError, match="inproc://taken: address already in use"):
        Agent("inproc://taken")


def test_a_failed_bind_leaves_nothing_behind() -> None:
    with Agent() as agent:
        for _ in range(3):
            with pytest.raises(BindError):
                Agent(pub_endpoint=agent.pub_endpoint)


def test_a_monitor_has_an_address_that_no_other_one_still_has(router: zmq.Socket[bytes]) -> None:
    """libzmq gives that of a closed one back some time after its number is used again."""
    with router.context.socket(zmq.PAIR) as former:
        former.bind(f"inproc://monitor.s-{router.FD}")
        endpoints.new_monitor(router, zmq.EVENT_CLOSED).close(0)
    assert not router.closed


@pytest.mark.parametrize(
    ("endpoint", "loopback"),
    [
        ("tcp://127.0.0.1:1", True), ("tcp://127.8.9.1:1", True), ("tcp://localhost:1", True), ("tcp://[::1]:1", True),
        ("ipc:///tmp/a", True), ("inproc://a", True), ("tcp://0.0.0.0:1", False), ("tcp://*:1", False),
        ("tcp://[::]:1", False), ("tcp://[fd00::1]:1", False), ("tcp://[::ffff:127.0.0.1]:1", True),
        ("tcp://192.0.2.1:1", False), ("tcp://lab-a:1", False),
    ],
)  # fmt: skip
def test_only_what_this_machine_alone_can_reach_is_loopback(endpoint: str, loopback: bool) -> None:
    assert endpoints.is_loopback(endpoint) is loopback


@pytest.mark.parametrize(("endpoint", "kept"), [("tcp://127.0.0.1:0", True), ("tcp://192.0.2.1:5555", False)])
def test_the_kernel_keeps_little_within_this_host_and_what_it_likes_elsewhere(
    router: zmq.Socket[bytes], endpoint: str, kept: bool
) -> None:
    endpoints.stay_in_cache(router, endpoint)
    size = endpoints.WARM_BUFFER if kept else -1
    assert (router.getsockopt(zmq.SNDBUF), router.getsockopt(zmq.RCVBUF)) == (size, size)


@pytest.mark.parametrize(
    ("endpoint", "wildcard"),
    [
        ("tcp://0.0.0.0:1", True), ("tcp://*:1", True), ("tcp://[::]:1", True), ("tcp://[::0]:1", True),
        ("tcp://127.0.0.1:1", False), ("tcp://lab-a:1", False), ("ipc://*", False),
    ],
)  # fmt: skip
def test_only_what_stands_for_every_interface_is_a_wildcard(endpoint: str, wildcard: bool) -> None:
    assert endpoints.is_wildcard(endpoint) is wildcard


@pytest.mark.parametrize(
    ("rep", "pub"),
    [
        ("tcp://127.0.0.1:5555", "tcp://127.0.0.1:0"), ("tcp://0.0.0.0:0", "tcp://0.0.0.0:0"),
        ("tcp://[::]:5555", "tcp://[::]:0"), ("tcp://*:*", "tcp://*:0"), ("ipc:///tmp/a", "tcp://127.0.0.1:0"),
    ],
)  # fmt: skip
def test_an_agent_publishes_where_it_is_reached(rep: str, pub: str) -> None:
    assert endpoints.beside(rep) == pub


def test_an_agent_publishes_on_the_interface_that_it_answers_on() -> None:
    with Agent("tcp://127.0.0.2:0") as agent:
        assert agent.pub_endpoint.startswith("tcp://127.0.0.2:")


def test_an_agent_at_an_ipv6_address_is_asked_and_heard() -> None:
    with Agent("tcp://[::1]:0") as publisher, Agent() as reader:
        assert reader.request(publisher.rep_endpoint, "ping") == "pong"
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        publisher.publish("t", 5)
        assert subscription.recv(TIMEOUT).content == 5


def test_an_agent_with_a_single_port_has_no_pub_endpoint() -> None:
    with Agent("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", single_port=True) as agent:
        assert agent.pub_endpoint == ""
        assert agent.request(agent.rep_endpoint, "info")["pub_endpoint"] == ""


def test_the_variable_for_a_single_port_gives_way_to_the_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_SINGLE_PORT", "1")
    with Agent() as without, Agent(single_port=False) as both:
        assert without.pub_endpoint == ""
        assert both.pub_endpoint


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_single_port_carries_every_policy(transport: str) -> None:
    with Agent(single_port=True) as publisher, Agent() as reader:
        subscriptions = [
            reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport=transport)
            for policy in (drop(), latest(10), block())
        ]
        for number in range(10):
            publisher.publish("t", number)
        for subscription in subscriptions:
            assert [subscription.recv(TIMEOUT).content for _ in range(10)] == list(range(10))


def test_an_open_endpoint_without_key_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        endpoints.warn_unsigned("tcp://192.0.2.7:1")
    endpoints.warn_unsigned("tcp://127.0.0.1:1")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "tcp://192.0.2.7:1" in caplog.text
    assert "Set PZC_KEY" in caplog.text
