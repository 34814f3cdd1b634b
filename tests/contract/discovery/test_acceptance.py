"""G1 to G6: agents in processes of their own find each other, and notice each other's end.

Times are measured where they are felt, with the monotonic clock of the receiver. Bounds are those that were
promised where a machine under load keeps them, else those of a wait.
"""

from __future__ import annotations

import os
import threading

from pzc import Agent, Proxy

from tests.contract.rigs.peers import TIMEOUT


def test_a_signal_that_is_connected_by_name_follows_its_server() -> None:
    from pzc import Server, Signal

    class Dial:
        def __init__(self) -> None:
            self.turned = Signal()

    values: list[object] = []
    come = threading.Event()

    def on_turn(value: object) -> None:
        values.append(value)
        come.set()

    first = Server(Dial(), name="dial")
    with Proxy("dial") as dial:
        dial.turned.connect(on_turn)
        first.stop()
        served = Dial()
        with Server(served, name="dial") as second:
            assert second.wait_for_subscribers("turned", 1, TIMEOUT)
            served.turned.emit(7)
            assert come.wait(TIMEOUT)
    assert values == [7]


def test_a_forked_child_takes_part_on_its_own() -> None:
    with Agent(name="parent") as parent, Agent() as asking:
        assert asking.request("parent", 1) == 1
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                with Agent(name="child") as own:
                    os.write(writing, own.request("parent", "from the child").encode())
                    status = 0
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading) as told:
            assert told.read() == "from the child"
        assert os.waitpid(child, 0)[1] == 0
        assert asking.request("parent", 2) == 2
        assert parent.statistics()["discovery"]["problem"] == ""
