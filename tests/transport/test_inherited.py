"""What is being opened while a process forks is no more the child's than what was open before."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from pzc.transport.inherited import mine

from tests.contract.rigs.calling import TIMEOUT, in_thread, run_in_fork


@pytest.mark.needs("fork")
def test_a_fork_waits_for_a_socket_that_another_thread_opens_and_the_child_has_none_of_it() -> None:
    opened, forking = threading.Event(), threading.Event()
    sockets: list[socket.socket] = []
    os.register_at_fork(before=forking.set)

    def slowly() -> socket.socket:
        sockets.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        opened.set()
        assert forking.wait(TIMEOUT)
        return sockets[0]

    thread, outcome = in_thread(lambda: mine(slowly))
    assert opened.wait(TIMEOUT)

    def look() -> None:
        assert sockets[0].fileno() == -1

    assert run_in_fork(look) == 0
    thread.join(TIMEOUT)
    assert outcome == sockets
    with sockets[0] as mine_still:
        assert mine_still.fileno() >= 0
