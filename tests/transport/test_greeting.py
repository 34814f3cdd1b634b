"""The first words over a Unix socket: whose it is, and whether it is the agent that was meant."""

from __future__ import annotations

import os
import socket
import time

import pytest

from pzc import PeerLost
from pzc.transport import greeting
from pzc.transport.link_stream import LinkStream

from tests.contract.rigs.calling import TIMEOUT, in_thread

ME = "f" * 32
NOBODY = 65534

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@only_root
def test_a_fast_lane_of_another_user_is_not_spoken_to() -> None:
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as impostor:
                impostor.bind(f"\0pzc/{ME}")
                impostor.listen()
                os.write(ready[1], b"1")
                os.read(done[0], 1)
        finally:
            os._exit(0)
    os.read(ready[0], 1)
    with pytest.raises(PeerLost, match="belongs to another user"):
        greeting.connect(ME, "tcp://somewhere:1")
    os.write(done[1], b"1")
    os.waitpid(pid, 0)
    for descriptor in (*ready, *done):
        os.close(descriptor)


def test_who_does_not_greet_as_the_agent_is_not_spoken_to() -> None:
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(f"\0pzc/{ME}")
        impostor.listen()

        def greet() -> None:
            accepted, _ = impostor.accept()
            stream = LinkStream(accepted, "the client")
            stream.send([b"PZC01+" + b"0" * 32 + b"+", b"", b"0" * 32, b"", b""], time.monotonic() + TIMEOUT)
            stream.close()

        thread, _ = in_thread(greet)
        with pytest.raises(PeerLost, match="did not greet as agent"):
            greeting.connect(ME, "tcp://somewhere:1")
        thread.join(TIMEOUT)
