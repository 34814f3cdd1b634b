from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import psutil
import pytest

from pzc import (
    BindError,
    LocalProtocolError,
    PeerLost,
    Protocol,
    Proxy,
    SerializeError,
    Server,
    SignatureError,
    close,
)

from tests.contract.rigs.calling import KEY, TIMEOUT, Notebook, until, watched
from tests.contract.rigs.endpoints import free_endpoint
from tests.contract.rigs.failing import OddError


class Made:
    """What a test asks the child to make."""

    def __init__(self, how: str = "well", *, more: int = 0) -> None:
        if how == "badly":
            raise ValueError("no such instrument")
        if how == "oddly":
            raise OddError(1, 2.0)
        if how == "not at all":
            sys.exit(7)
        if how == "dead":
            os.kill(os.getpid(), signal.SIGKILL)
        self.how, self.more = how, more

    def pid(self) -> int:
        return os.getpid()


@pytest.fixture(autouse=True)
def _no_child_is_left() -> Iterator[None]:
    yield
    until(lambda: not multiprocessing.active_children())


def test_the_object_is_made_and_served_in_another_process() -> None:
    proxy = Server.serve_in_process(Made, ("well",), {"more": 3}, name="made")
    assert (proxy.how, proxy.more) == ("well", 3)
    assert proxy.pid() != os.getpid()
    proxy._proxy_stop_server()
    close(proxy)


class Copying(Server):
    """Gives lists away as copies."""

    def return_as_remote(self, attribute: object) -> bool:
        return False


class Listing:
    """Has a list."""

    def __init__(self) -> None:
        self.items = [1, 2]


def test_a_subclass_of_a_server_serves_in_its_process_as_it_does_here() -> None:
    for made in (Copying.serve_in_thread(Listing), Copying.serve_in_process(Listing)):
        assert type(made.items) is list
        made._proxy_stop_server()
        close(made)


def test_a_stopped_server_leaves_no_zombie() -> None:
    proxy = Server.serve_in_process(Notebook)
    pid = proxy.pid()
    with watched(pid) as ended:
        proxy._proxy_stop_server()
        assert ended()
    close(proxy)
    until(lambda: not multiprocessing.active_children())
    assert not psutil.pid_exists(pid)


def test_what_the_factory_raised_reaches_the_caller_with_its_traceback() -> None:
    with pytest.raises(ValueError, match="no such instrument") as caught:
        Server.serve_in_process(Made, ("badly",))
    assert "in __init__" in caught.value.__notes__[0]


def test_an_exception_with_several_arguments_reaches_the_caller_as_itself() -> None:
    with pytest.raises(OddError, match=r"channel 1: 2\.0 V"):
        Server.serve_in_process(Made, ("oddly",))


def test_a_bind_error_reaches_the_caller() -> None:
    with (
        Server(Made()) as server,
        pytest.raises(BindError, match=f"{server.rep_endpoint}: address already in use"),
    ):
        Server.serve_in_process(Made, rep_endpoint=server.rep_endpoint)


@pytest.mark.parametrize(("how", "code"), [("not at all", 7), ("dead", -signal.SIGKILL)])
def test_a_child_that_ends_before_it_serves_is_told_with_its_exit_code(how: str, code: int) -> None:
    with pytest.raises(PeerLost, match=rf"ended before it served \(exit code {code}\)"):
        Server.serve_in_process(Made, (how,))


def test_what_cannot_be_sent_to_the_child_is_told() -> None:
    with pytest.raises(SerializeError, match="cannot be sent"):
        Server.serve_in_process(Made, (threading.Lock(),))
    with pytest.raises(SerializeError, match="cannot be sent"):
        Server.serve_in_process(lambda: 1)  # pyright: ignore[reportArgumentType]


def test_a_protocol_is_no_argument_for_another_process() -> None:
    with pytest.raises(LocalProtocolError, match="PZC_ variables"):
        Server.serve_in_process(Made, protocol=None)


PARENT = """
import os, sys
from pzc import Server
from tests.contract.rigs.calling import Notebook

if __name__ == "__main__":
    proxy = Server.serve_in_process(Notebook)
    if sys.argv[1] == "fork" and os.fork() == 0:
        sys.stdin.read()  # holds every pipe of its parent open
        os._exit(0)
    print(proxy.pid(), flush=True)
    if sys.argv[1] == "leave":
        sys.exit()
    if sys.argv[1] == "raise":
        raise SystemError
    sys.stdin.readline()
"""


@pytest.mark.needs("fork")
@pytest.mark.parametrize(
    "way",
    [
        "kill",
        "fork",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("leave", "raise", "terminate")),
    ],
)
def test_the_child_dies_with_its_parent_however_that_ends(tmp_path: str, way: str) -> None:
    script = os.path.join(tmp_path, "parent.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(PARENT)
    with subprocess.Popen(
        [sys.executable, script, way],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        with watched(int(parent.stdout.readline())) as ended:
            if way in ("kill", "fork"):
                parent.kill()
            elif way == "terminate":
                parent.terminate()
            parent.wait(TIMEOUT)
            assert ended()


def test_the_child_signs_with_the_key_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_KEY", KEY)
    rep = free_endpoint()
    proxy = Server.serve_in_process(Notebook, rep_endpoint=rep)
    with pytest.raises(SignatureError):
        Proxy(rep, protocol=Protocol(""), timeout=TIMEOUT)
    assert proxy.pid() > 0
    proxy._proxy_stop_server()
    close(proxy)
