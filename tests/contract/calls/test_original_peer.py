from __future__ import annotations

import pickle
import queue
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from pzc import Protocol, Proxy, RemoteProtocolError, Server, SignatureError, VersionError, close

from tests.contract.rigs import original
from tests.contract.rigs.calling import KEY, TIMEOUT, Instrument, RawPeer, counts, proxied, served
from tests.contract.rigs.original import GOLDEN, Said

Session = tuple[bytes, list[Said]]

pytestmark = pytest.mark.usefixtures("beside_originals")


@pytest.fixture(
    params=["invented-signed", "invented-unsigned", "pizco-signed-pickle2", "pizco-unsigned-pickle2"]
)
def session(request: pytest.FixtureRequest) -> Session:
    if request.param.startswith("invented"):
        key = KEY.encode() if request.param == "invented-signed" else b""
        return key, original.invented(key)
    path = GOLDEN / f"{request.param}.json"
    if not path.exists():
        pytest.skip(f"the recorded session {path} is not here")
    return original.recorded(path)


def protocol_of(session: Session) -> Protocol:
    return Protocol(session[0].decode(), "pickle2", accept=["PZC00"])


def same(server: Server, ours: Any, theirs: Any) -> None:
    """Equal but for endpoints, tracebacks, and which members count as remote."""
    if isinstance(theirs, dict) and "rep_endpoint" in theirs:
        assert ours == {"rep_endpoint": server.rep_endpoint, "pub_endpoint": server.pub_endpoint}
    elif isinstance(theirs, tuple) and theirs[1] == "raise":
        (error, trace), (expected, _) = ours[2], theirs[2]
        assert ours[:2] == theirs[:2]
        assert (type(error), error.args) == (type(expected), expected.args)
        assert isinstance(trace, list)
        assert trace[-1] == f"{type(error).__name__}: {error}\n"
    elif isinstance(theirs, tuple) and theirs[1] == "return" and isinstance(theirs[2], tuple):
        assert ours[:2] == theirs[:2]
        assert [type(part) for part in ours[2]] == [set, set]
        assert {"ramp", "fail", "slow", "voltage_changed", "calibration"} <= ours[2][0] <= theirs[2][0]
    else:
        assert ours == theirs
        assert type(ours) is type(theirs)


def test_our_server_answers_the_very_bytes_of_an_original_proxy_as_the_original_server_did(
    session: Session,
) -> None:
    key, said = session
    with (
        Server(Instrument(), protocol=protocol_of(session)) as server,
        original.Client(key, server.rep_endpoint, server.pub_endpoint) as client,
    ):
        for topic in ("__future__", "voltage_changed"):
            client.subscribe(topic)
            assert server.wait_for_subscribers(topic, 1, TIMEOUT)
        frames: list[bytes] = []
        for each in said:
            if each.client:
                frames = client.ask(each.frames)
                continue
            if each.topic:
                frames = client.notified()
            sender, topic, content, msgid = original.read(key, frames)
            assert (sender, topic, frames[1]) == (server.rep_endpoint, each.topic, b"pickle2")
            same(server, content, each.content)
            if not each.topic:
                assert msgid == each.msgid
        assert server.join(TIMEOUT)


def test_our_proxy_uses_an_original_server_as_the_original_proxy_did(session: Session) -> None:
    key, said = session
    changes: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
    with original.Server(key, said) as server:
        psu = Proxy(server.endpoint, timeout=TIMEOUT, protocol=protocol_of(session))
        psu.voltage_changed.connect(lambda *all_of_them: changes.put(all_of_them))
        psu.label = "psu2"
        assert psu.voltage == 0.0
        assert psu.calibration[1] == 2
        psu.calibration[2] = 4
        psu.voltage = 3.3
        assert changes.get(timeout=TIMEOUT) == (3.3, 0.0, None)
        assert psu.ramp(2) == 4
        assert psu.ramp(2, b=5) == 10
        with pytest.raises(ValueError, match="out of range") as caught:
            psu.fail()
        assert "ValueError: out of range" in caught.value.__notes__[0]
        assert psu.slow().result(TIMEOUT) == 42
        with pytest.raises(AttributeError, match="has no attribute 'nope'"):
            psu.nope
        psu._proxy_stop_server()
        close(psu)
        assert server.asked == [each.content for each in said if each.client]


def test_our_proxy_that_waits_for_nothing_uses_an_original_server_too(session: Session) -> None:
    key, said = session
    with (
        original.Server(key, said) as server,
        proxied(server.endpoint, timeout=TIMEOUT, protocol=protocol_of(session)) as psu,
    ):
        assert psu.ramp.future(2).result(TIMEOUT) == 4
        assert psu.slow.future().result(TIMEOUT) == 42
        with pytest.raises(ValueError, match="out of range"):
            psu.fail.future().result(TIMEOUT)


def test_the_same_proxy_follows_when_an_original_server_and_ours_take_turns() -> None:
    said = original.invented(b"")  # with a key, whoever proved PZC01 stays with it
    with original.Server(b"", said) as first:
        endpoint = first.endpoint
        psu = Proxy(endpoint, timeout=TIMEOUT, protocol=Protocol("", "pickle2"))
        assert psu.ramp(2) == 4
    with served_at(endpoint):
        assert psu.ramp(3) == 6
    close(psu)
    with served_at(endpoint):
        psu = Proxy(endpoint, timeout=TIMEOUT, protocol=Protocol("", "pickle2"))
        assert psu.ramp(3) == 6
    with original.Server(b"", said, endpoint):
        with pytest.raises(VersionError, match="answered in PZC00"):
            psu.ramp(2)
        assert psu.ramp(2) == 4
    close(psu)


def served_at(endpoint: str) -> Server:
    return Server(Instrument(), endpoint, protocol=Protocol("", "pickle2"))


@pytest.mark.parametrize(("ours", "theirs"), [(KEY, b"two"), (KEY, b""), ("", b"two")])
def test_keys_that_differ_are_told_to_our_proxy(ours: str, theirs: bytes) -> None:
    with original.Server(theirs, original.invented(theirs)) as server:
        with pytest.raises(SignatureError, match=f"signature refused by {server.endpoint}: keys differ"):
            Proxy(server.endpoint, timeout=600.0, protocol=Protocol(ours, "pickle2"))
        assert server.asked == [] or not theirs


def test_an_original_proxy_of_another_key_gets_the_empty_reply_and_runs_nothing() -> None:
    gate = Instrument()
    with Server(gate, protocol=Protocol(KEY)) as server:
        for key in (b"two", b""):
            with original.Client(key, server.rep_endpoint, server.pub_endpoint) as client:
                content = ("PSMessage", "setattr", {"name": "label", "value": "x"})
                reply = client.ask(original.make(key, "tcp://127.0.0.1:1", content))
            assert original.read(KEY.encode(), reply)[2] == ""
        assert gate.label == "psu"
        assert counts(server)["refused_SignatureError"] == 2


@pytest.fixture
def client() -> Iterator[tuple[Server, original.Client]]:
    key = KEY.encode()
    with (
        Server(Instrument(), protocol=Protocol(KEY, "pickle2")) as server,
        original.Client(key, server.rep_endpoint, server.pub_endpoint) as made,
    ):
        yield server, made


def ask(client: original.Client, content: object) -> Any:
    frames = client.ask(original.make(client.key, "tcp://127.0.0.1:1", content))
    return original.read(client.key, frames)[2]


def test_other_content_is_echoed_to_an_original_peer(client: tuple[Server, original.Client]) -> None:
    for content in ("hello", 7, None, ("PSMessage",), {"pzc": "hello", "challenge": "x"}):
        assert ask(client[1], content) == content


def test_a_wrong_action_of_an_original_peer_is_raised_there(client: tuple[Server, original.Client]) -> None:
    _, action, (error, _) = ask(client[1], ("PSMessage", "nothing", {}))
    assert (action, type(error)) == ("raise", ValueError)


def test_an_original_proxy_is_never_given_a_private_member(client: tuple[Server, original.Client]) -> None:
    for name in ("_voltage", "__class__", "__init__"):
        _, action, (error, _) = ask(client[1], ("PSMessage", "getattr", {"name": name}))
        assert (action, type(error)) == ("raise", AttributeError)


def test_an_original_proxy_gets_remote_for_a_mapping_and_the_value_on_demand(
    client: tuple[Server, original.Client],
) -> None:
    get = {"name": "calibration"}
    assert ask(client[1], ("PSMessage", "get", get)) == ("PSMessage", "remote", None)
    assert ask(client[1], ("PSMessage", "get", {**get, "force_as_object": True}))[2] == {1: 2}
    assert ask(client[1], ("PSMessage", "getattr", get))[2] == {1: 2}


def test_an_original_proxy_cannot_instantiate_what_is_not_on_the_list() -> None:
    with Server(None, protocol=Protocol(KEY)) as server:
        with original.Client(KEY.encode(), server.rep_endpoint, server.pub_endpoint) as client:
            options = {"class": "tests.contract.rigs.calling.Instrument", "args": (), "kwargs": {}}
            _, action, (error, _) = ask(client, ("PSMessage", "instantiate", options))
        assert action == "raise"
        assert isinstance(error, OSError)  # what pickle 2 makes of a PermissionError
        assert server.served_object is None


def test_a_topic_subscribed_by_an_original_peer_is_emitted_in_its_dialect_only_while_it_listens(
    client: tuple[Server, original.Client],
) -> None:
    server, peer = client
    assert server.served_object.voltage_changed.slots == []  # pyright: ignore[reportAttributeAccessIssue]
    peer.subscribe("voltage_changed")
    assert server.wait_for_subscribers("voltage_changed", 1, TIMEOUT)
    ask(peer, ("PSMessage", "setattr", {"name": "voltage", "value": 1.5}))
    frames = peer.notified()
    assert frames[0] == f"PZC00+{server.rep_endpoint}+voltage_changed".encode()
    assert pickle.loads(frames[2]) == (1.5, 0.0, None)


def test_an_agent_that_accepts_pzc01_only_refuses_an_original_peer() -> None:
    with Server(Instrument(), protocol=Protocol(KEY, accept=["PZC01"])) as server:
        with original.Client(KEY.encode(), server.rep_endpoint, server.pub_endpoint) as client:
            frames = client.ask(original.make(KEY.encode(), "tcp://127.0.0.1:1", "info"))
        assert pickle.loads(frames[2]) == ""
        assert counts(server)["refused_VersionError"] == 1


def test_a_proxy_that_accepts_pzc01_only_refuses_an_original_server() -> None:
    with (
        original.Server(b"", original.invented(b"")) as server,
        pytest.raises(VersionError, match="answered in PZC00, which this side does not accept"),
    ):
        Proxy(server.endpoint, timeout=600.0, protocol=Protocol("", accept=["PZC01"]))


def test_a_serializer_that_an_original_server_lacks_is_an_error_in_time() -> None:
    protocol = Protocol("", "msgpack", accept_serializers=["msgpack", "pickle"])
    with original.Server(b"", original.invented(b"")) as server:
        with pytest.raises((SignatureError, RemoteProtocolError)):
            Proxy(server.endpoint, timeout=600.0, protocol=protocol)


def test_two_original_sockets_at_once_are_answered_each_with_its_own() -> None:
    with served(Instrument()) as (server, _):
        with RawPeer(server.rep_endpoint) as one, RawPeer(server.rep_endpoint, zmq.DEALER) as two:
            first, second = (original.make(b"", "tcp://127.0.0.1:1", number) for number in (1, 2))
            two.socket.send_multipart([b"", *second])
            assert pickle.loads(one.ask(first)[2]) == 1
            assert pickle.loads(two.receive()[3]) == 2
