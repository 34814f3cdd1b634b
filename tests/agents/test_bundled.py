from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent, Key, Keyring, Protocol, RemoteProtocolError, Role, Server, attach
from pzc.agents.calling.bundles import MAX_BODY
from pzc.agents.calling.reply import Reply
from pzc.protocol import limits, serializers

from tests.contract.rigs import counting
from tests.contract.rigs.calling import KEY, TIMEOUT, proxied
from tests.contract.rigs.counting import Counter

counter, server = counting.counter, counting.server

KEYS = {role: Key(f"secret of the {role.name}", role.name.lower(), role) for role in Role}


class Evil:
    """Would call a function where it is read."""

    def __reduce__(self) -> Any:
        return print, ("read by somebody",)


@pytest.fixture
def client() -> Iterator[Agent]:
    with Agent(protocol=Protocol(KEY)) as made:
        yield made


def call(client: Agent, name: str, *args: Any, call_id: str | None = None) -> tuple[str, bytes]:
    content = ("PSMessage", "exec", {"name": name, "method": "__call__", "args": args})
    body = bytes(serializers.encode(client.protocol.codec.serializer, content))
    return call_id or client.protocol.new_urn(), body


class Answers:
    """What came back for a bundle, in one answer or more."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.outcomes: list[tuple[int, Any]] = []
        self.over: Future[None] = Future()

    def take(self, reply: Reply) -> None:
        for number, body in reply.content["done"]:
            content = serializers.decode(reply.serializer, body, trusted=reply.trusted)
            self.outcomes.append((number, content))
            self.left -= 1
        if not self.left:
            self.over.set_result(None)

    def fail(self, error: BaseException) -> None:
        self.over.set_exception(error)

    def has(self, call_id: str) -> bool:
        return False


def ask(client: Agent, server: Server, calls: Any) -> list[tuple[int, Any]]:
    """The outcomes by number."""
    peer = client.peer(server.rep_endpoint)
    answers: Any = Answers(len(calls) if isinstance(calls, list) else 1)
    content = {"pzc": "calls", "calls": calls}
    client.loop.run(lambda: client._deferred.send_bundle(peer, content, TIMEOUT, answers))
    answers.over.result(TIMEOUT)
    return sorted(answers.outcomes, key=lambda outcome: outcome[0])


def proved(client: Agent, server: Server, *names: str) -> None:
    """These members are run by the I/O thread from now on."""
    for name in names:
        for _ in range(10):
            ask(client, server, [call(client, name, -1)])


def test_every_call_of_a_bundle_has_its_own_outcome(client: Agent, server: Server) -> None:
    proved(client, server, "note", "fail")
    done = ask(client, server, [call(client, "note", 1), call(client, "fail", 2), call(client, "note", 3)])
    assert [n for n, _ in done] == [0, 1, 2]
    assert [content[1] for _, content in done] == ["return", "raise", "return"]


def test_a_call_that_came_before_is_not_executed_again(
    client: Agent, server: Server, counter: Counter
) -> None:
    first = call(client, "note", 1)
    ask(client, server, [first])
    with pytest.raises(RemoteProtocolError, match="came before"):
        ask(client, server, [call(client, "note", 2), first])
    assert counter.noted == [1]


def test_a_call_that_runs_by_itself_is_not_executed_again(
    client: Agent, server: Server, counter: Counter
) -> None:
    content = ("PSMessage", "exec", {"name": "hold", "method": "__call__", "args": (1, TIMEOUT)})
    running: Any = client.exchange_later(client.peer(server.rep_endpoint), content, TIMEOUT)
    assert counter.entered.wait(TIMEOUT)
    repeated = call(client, "note", 2, call_id=running.msgid)
    for _ in range(2):  # the refused bundle leaves nothing behind that would refuse it for another reason
        with pytest.raises(RemoteProtocolError, match="runs here already"):
            ask(client, server, [repeated])
    assert counter.noted == [1]


def test_a_call_does_not_stand_in_a_bundle_twice(client: Agent, server: Server, counter: Counter) -> None:
    once = call(client, "note", 1)
    with pytest.raises(RemoteProtocolError, match="came before"):
        ask(client, server, [once, once])
    assert counter.noted == []


@pytest.mark.parametrize(
    "calls",
    [None, [], 7, [7], [("id",)], [("id", "text")], [(7, b"")], [("", b"")], [("x" * 65, b"")],
     [(str(n), b"") for n in range(limits.current.bundle_calls + 1)]],
)  # fmt: skip
def test_what_is_no_bundle_is_refused(client: Agent, server: Server, calls: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        ask(client, server, calls)


@pytest.mark.parametrize(
    "content",
    ["stop", {"pzc": "hello"}, ("PSMessage", "batch", {"calls": []}), ("PSMessage", "instantiate", {}),
     ("PSMessage", "exec", 7), ("Other", "exec", {})],
)  # fmt: skip
def test_what_is_no_call_of_a_member_is_refused_and_the_others_run(
    client: Agent, server: Server, content: Any
) -> None:
    odd = client.protocol.new_urn(), pickle.dumps(content)
    proved(client, server, "note")
    done = ask(client, server, [odd, call(client, "note", 1)])
    assert done[0][1][1]["code"] == "RemoteProtocolError"
    assert tuple(done[1][1]) == ("PSMessage", "return", 1)


def test_bytes_that_cannot_be_read_are_refused_and_the_others_run(client: Agent, server: Server) -> None:
    proved(client, server, "note")
    done = ask(client, server, [(client.protocol.new_urn(), b"no pickle"), call(client, "note", 1)])
    assert done[0][1][1]["code"] == "DecodeError"
    assert tuple(done[1][1]) == ("PSMessage", "return", 1)


def test_a_call_that_no_key_has_signed_is_read_by_the_restricted_unpickler(
    counter: Counter, capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(counter, protocol=Protocol("")) as server, Agent(protocol=Protocol("")) as client:
        proved(client, server, "note")
        done = ask(client, server, [call(client, "note", Evil()), call(client, "note", 1)])
    assert done[0][1][1]["code"] == "SerializerRefused"
    assert tuple(done[1][1]) == ("PSMessage", "return", 1)
    assert capsys.readouterr().out == ""


def test_every_call_is_judged_by_its_own_role_and_a_refusal_is_audited(
    counter: Counter, tmp_path: Path
) -> None:
    def protocol_of(role: Role) -> Protocol:
        return Protocol(keyring=Keyring(KEYS.values(), KEYS[role]))

    log = tmp_path / "audit.log"
    with (
        Server(counter, protocol=protocol_of(Role.ADMIN), audit=log) as server,
        Agent(protocol=protocol_of(Role.OBSERVER)) as observer,
    ):
        seen = observer.protocol.new_urn(), pickle.dumps(("PSMessage", "getattr", {"name": "noted"}))
        refused = call(observer, "note", 1)
        outcomes = dict(ask(observer, server, [refused, seen]))
    assert outcomes[0][1]["code"] == "RoleRefused"
    assert counter.noted == []
    assert any(refused[0] in line and "refused" in line for line in log.read_text().splitlines())


def test_calls_run_in_their_order_when_one_of_them_is_slow_for_once(
    client: Agent, server: Server, counter: Counter
) -> None:
    proved(client, server, "hold", "note")
    counter.noted.clear()
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
        futures = [proxy.hold.future(0, TIMEOUT)]
        futures += [proxy.note.future(number) for number in range(1, 20)]
        assert counter.entered.wait(TIMEOUT)
        futures += [proxy.note.future(20, bytes(2 * MAX_BODY)), proxy.note.future(21)]
        proxy._proxy_remote.agent.exchange_later(proxy._proxy_remote.peer, "ping", TIMEOUT).result(TIMEOUT)
        counter.opened.set()
        assert [future.result(TIMEOUT) for future in futures] == list(range(22))
    assert counter.noted == list(range(22))


def test_the_rest_of_a_bundle_waits_in_the_lane_when_its_time_is_over(
    client: Agent, server: Server, counter: Counter, timings: Callable[..., None]
) -> None:
    proved(client, server, "note")
    counter.noted.clear()
    timings(bundle_slice=0.0)
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
        futures = [proxy.note.future(number) for number in range(100)]
        assert [future.result(TIMEOUT) for future in futures] == list(range(100))
    assert counter.noted == list(range(100))


def test_an_outcome_that_is_large_comes_by_itself(server: Server) -> None:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
        sizes = [10, MAX_BODY * 2, 20, 1 << 20] * 5
        futures = [proxy.large.future(size) for size in sizes]
        assert [len(future.result(TIMEOUT)) for future in futures] == sizes
        assert len(attach(futures[3].call_id, protocol=Protocol(KEY)).result(TIMEOUT)) == 1 << 20


def test_nothing_of_a_bundle_stays_when_all_is_over(client: Agent, server: Server, counter: Counter) -> None:
    ask(client, server, [call(client, "note", number) for number in range(50)])
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
        for future in [proxy.note.future(number) for number in range(50)]:
            future.result(TIMEOUT)
        outbox = proxy._proxy_remote._outbox
        assert outbox is not None
        agent = proxy._proxy_remote.agent
        agent.loop.run(lambda: None)
        assert (outbox._bundles, agent._deferred.bundled, agent._deferred._going_on) == ([], 0, {})
    assert (len(server._answering.execution.calls), len(server._answering.lane)) == (0, 0)
