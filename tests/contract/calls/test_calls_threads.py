"""Faults of calls: who runs what, in which thread, and what a closed proxy leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pzc import (
    Agent,
    ConfigError,
    Protocol,
    Proxy,
    PzcError,
    RemoteProtocolError,
    Server,
    close,
)

from tests.contract.rigs.supply import TIMEOUT, Supply

KEY = "a key that both sides know"


@pytest.fixture
def supply() -> Iterator[Supply]:
    made = Supply()
    yield made
    made.opened.set()


@pytest.fixture
def server(supply: Supply) -> Iterator[Server]:
    with Server(supply, protocol=Protocol(KEY)) as made:
        yield made


def proxy_of(server: Server, **options: Any) -> Proxy:
    return Proxy(server.rep_endpoint, protocol=Protocol(KEY), **{"timeout": TIMEOUT, **options})


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    made = proxy_of(server, transport="tcp")
    yield made
    close(made)


def in_thread(function: Any) -> Future[Any]:
    """What a function returns or raises in a thread of its own."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as exc:
            future.set_exception(exc)

    threading.Thread(target=run).start()
    return future


def running(threads: int) -> bool:
    """True as soon as no more than so many threads run; False when they stay."""
    pause = threading.Event()
    for _ in range(100):
        if threading.active_count() <= threads:
            return True
        pause.wait(0.01)
    return False


def test_a_callback_of_a_future_may_call(server: Server) -> None:
    outcome: Future[Any] = Future()

    def go_on(_: object) -> None:
        try:
            outcome.set_result(proxy.note())
        except Exception as exc:
            outcome.set_exception(exc)

    with proxy_of(server, transport="tcp", timeout=0.5) as proxy:
        proxy.note.future().add_done_callback(go_on)
        assert outcome.result(TIMEOUT) == 2


class Watchful(Supply):
    """Notes who looks up its signal while a call runs."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = threading.Event()

    def __getattribute__(self, name: str) -> Any:
        get = super().__getattribute__
        if name == "changed" and get("running").is_set() and not get("ended").is_set():
            get("looked").set()
        return get(name)


def test_a_subscription_does_not_read_the_object_while_a_call_runs() -> None:
    watchful = Watchful()
    with Server(watchful, protocol=Protocol(KEY)) as server, proxy_of(server, transport="tcp") as proxy:
        signal = proxy.changed
        held = proxy.hold.future()
        assert watchful.running.wait(TIMEOUT)
        connected = in_thread(lambda: signal.connect(print))
        looked = watchful.looked.wait(0.5)
        watchful.opened.set()
        held.result(TIMEOUT)
        connected.result(TIMEOUT)
        assert not looked


@pytest.mark.parametrize("answer", [None, {"a": 1}], ids=["None", "a dict"])
def test_an_on_request_that_answers_anything_else_leaves_the_connection_alive(answer: object) -> None:
    class Answering(Server):
        def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
            done = super().on_request(sender, topic, content, msgid)
            return answer if content[1] == "exec" else done

    with (
        Answering(Supply(), protocol=Protocol(KEY)) as server,
        proxy_of(server, transport="unix", timeout=2) as proxy,
    ):
        for _ in range(3):
            with pytest.raises(RemoteProtocolError):
                proxy.note()


def test_a_closed_proxy_leaves_no_connection_behind(server: Server, supply: Supply) -> None:
    with proxy_of(server, transport="unix") as first:
        first.note()
        before = threading.active_count()
        proxies = [proxy_of(server, transport="unix") for _ in range(5)]
        held = [in_thread(each.hold) for each in proxies]
        assert supply.running.wait(TIMEOUT)
        supply.opened.set()
        for each in held:
            each.result(TIMEOUT)
        for each in proxies:
            close(each)
        assert running(before)


@pytest.mark.parametrize("timeout", [1e10, 1e300])
def test_a_timeout_that_no_clock_holds_is_refused_where_it_is_given(server: Server, timeout: float) -> None:
    with pytest.raises(ConfigError, match="timeout"), proxy_of(server, timeout=timeout) as proxy:
        proxy.note()


def test_a_timeout_that_is_no_number_is_refused_where_it_is_given(server: Server) -> None:
    with pytest.raises(ConfigError, match="timeout"), proxy_of(server, timeout="soon"):
        pass


def test_a_variable_without_effect_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PZC_CURVE_DIR", "/etc/curve")
    with Agent():
        assert "PZC_CURVE_DIR" in caplog.text


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_a_stream_whose_proxy_is_closed_raises_in_who_reads_it(
    server: Server, supply: Supply, transport: str
) -> None:
    proxy = proxy_of(server, transport=transport)
    stream = iter(proxy.count())
    assert next(stream) == 1
    reading = in_thread(lambda: next(stream))
    close(proxy)
    with pytest.raises(PzcError):
        reading.result(TIMEOUT)


@pytest.mark.parametrize("name", ["psu", None])
def test_a_bad_namespace_is_refused_with_and_without_a_name(name: str | None) -> None:
    with pytest.raises(ConfigError, match="a b//c"), Agent(name=name, namespace="a b//c"):
        pass


def test_proxies_of_one_server_are_equal(server: Server) -> None:
    with proxy_of(server) as one, proxy_of(server) as two:
        assert one == two
        assert hash(one) == hash(two)


class Log:
    """An object that is a collection itself."""

    def __init__(self) -> None:
        self.lines = ["a", "b", "c"]

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> str:
        return self.lines[index]


def test_a_served_collection_has_length_items_and_iteration() -> None:
    with Server(Log(), protocol=Protocol(KEY)) as server, proxy_of(server) as proxy:
        log: Any = proxy
        assert (len(log), log[1], list(log)) == (3, "b", ["a", "b", "c"])
