"""What whoever calls an agent that is not there, or of another version, is told, and when."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pzc import Agent, PeerLost, Proxy, Server
from pzc.testing import Timings

from tests.contract.rigs.calling import TIMEOUT, Gate, in_thread
from tests.contract.rigs.endpoints import free_endpoint

LONG = 600.0


class Heard(logging.Handler):
    """Tells when something is logged that begins so."""

    def __init__(self, begins: str) -> None:
        super().__init__(logging.WARNING)
        self._begins = begins
        self.heard = threading.Event()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        if record.getMessage().startswith(self._begins):
            self.text = record.getMessage()
            self.heard.set()


@contextmanager
def hearing(begins: str) -> Iterator[Heard]:
    handler = Heard(begins)
    logging.getLogger("pzc").addHandler(handler)
    try:
        yield handler
    finally:
        logging.getLogger("pzc").removeHandler(handler)


def test_a_proxy_of_a_port_where_nobody_listens_is_refused_long_before_its_timeout() -> None:
    endpoint = free_endpoint()
    with pytest.raises(PeerLost, match=f"{endpoint} cannot be reached: nothing listens at that port") as told:
        Proxy(endpoint, timeout=LONG)
    assert told.value.absent


def test_a_host_that_nobody_knows_is_told_long_before_the_timeout() -> None:
    with pytest.raises(
        PeerLost, match=r"no address of no-such-host\.invalid is known here; is it spelt right"
    ):
        Proxy("tcp://no-such-host.invalid:5555", timeout=LONG)


def test_a_program_that_is_no_agent_is_told_long_before_the_timeout() -> None:
    def answer(connection: socket.socket) -> None:
        with connection:
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n" * 10)

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                answer(listener.accept()[0])
            except ConnectionError:
                continue
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread, _ = in_thread(lambda: serve(listener))
        with pytest.raises(PeerLost, match="something else than an agent is there"):
            Proxy(f"tcp://127.0.0.1:{listener.getsockname()[1]}", timeout=LONG)
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(TIMEOUT)


@pytest.mark.parametrize("handshake", [0.1, LONG], ids=["for longer than a handshake", "for a moment"])
def test_an_agent_that_may_be_suspended_is_told_as_that(handshake: float) -> None:
    with Timings(handshake=handshake), socket.create_server(("127.0.0.1", 0)) as silent, Agent() as agent:
        with pytest.raises(PeerLost, match="suspended, as by Ctrl-Z"):
            agent.request(f"tcp://127.0.0.1:{silent.getsockname()[1]}", "ping", timeout=1.0)


@pytest.mark.parametrize("used", ["once", "after an error"])
def test_a_call_of_a_server_that_went_says_what_it_waits_for_and_is_answered_when_that_is_back(
    used: str,
) -> None:
    endpoint = free_endpoint()
    with Server(Gate(), endpoint):
        proxy = Proxy(endpoint, timeout=LONG)
        count = proxy.count
        assert count() == 1
    with proxy:
        if used == "after an error":
            with pytest.raises(PeerLost, match="nothing listens at that port"):
                count.options(timeout=0.1)()
        with hearing(f"waiting for {endpoint}: nothing listens at that port") as handler:
            thread, outcome = in_thread(count)
            assert handler.heard.wait(TIMEOUT)
            with Server(Gate(), endpoint):
                thread.join(TIMEOUT)
    assert outcome == [1]
