from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pzc import (
    Agent,
    Protocol,
)
from pzc.agents.notifications.links import open_links, transports
from pzc.protocol.link_messages import Notify

from tests.agents.inside import break_connections, give_up_unix, subscribers
from tests.agents.receiving import busy_helpers, leased
from tests.contract.rigs.pairs import LONG, Publishing, pair, read, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT


def test_a_broken_connection_loses_nothing_and_repeats_nothing() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        publishing = Publishing(publisher, "t", range(3000))
        found: list[Any] = []
        for _ in range(6):
            found += read(subscription, 500)
            break_connections()
        publishing.finish()
        assert found == list(range(3000))
        assert (subscription.dropped, subscription.gaps) == (0, [])


def test_without_its_unix_socket_a_link_goes_on_over_tcp() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        publishing = Publishing(publisher, "t", range(2000))
        found = read(subscription, 500)
        give_up_unix(publisher)
        break_connections()
        found += read(subscription, 1500)
        publishing.finish()
        assert found == list(range(2000))
        assert (subscription.transport, subscription.dropped, subscription.gaps) == ("tcp", 0, [])


def test_a_kept_array_stays_true_when_the_connection_breaks() -> None:
    import numpy as np

    with pair() as (publisher, reader):
        publisher.advertise("t", buffers=2)
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        publisher.publish("t", np.arange(100_000))
        with subscription.recv_zero_copy(TIMEOUT) as notification:
            kept = notification.content[:1000]
        break_connections()
        publishing = Publishing(publisher, "t", (np.zeros(100_000) for _ in range(1)))
        subscription.recv(TIMEOUT)
        publishing.finish()
        assert np.array_equal(kept, np.arange(1000))


READER = """
import sys, threading
from pzc import Agent, Protocol, block

with Agent(protocol=Protocol(sys.argv[2])) as agent:
    subscription = agent.subscribe(sys.argv[1], "t", policy=block(timeout=60), transport=sys.argv[3])
    print("ready", flush=True)
    threading.Event().wait()
"""


def test_the_end_of_a_process_shows_also_behind_the_end_of_its_connection(
    timings: Callable[..., None],
) -> None:
    """As after a kill: the kernel closes the sockets first."""
    timings(silence=1_000.0)
    with Agent(name="publisher", protocol=Protocol(KEY)) as publisher:
        process = subprocess.Popen(
            [sys.executable, "-c", READER, publisher.rep_endpoint, KEY, "unix"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGSTOP)
            (link,) = subscribers(publisher).links.values()
            way = link.transport
            assert way is not None
            publisher.loop.run(partial(subscribers(publisher).lose_transport, link, way))
            process.kill()
            wait_until(lambda: link.ended)
            assert link.ended == "its process has ended"
        finally:
            process.kill()
            process.wait(TIMEOUT)
            process.stdout.close()


@pytest.mark.parametrize(("kind", "way"), [("UnixTransport", "unix"), ("PollTransport", "tcp")])
def test_a_bundle_that_never_came_is_sent_again(kind: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    carrier = getattr(transports, kind)
    send, lost = carrier.send, [3]

    def sometimes(self: Any, notify: Any, fd: int, contents: Any) -> bool:
        if notify.runs and lost and notify.first >= lost[0]:
            lost.clear()
            if way == "tcp":  # the poll is answered with nothing
                return send(self, Notify(notify.first), -1, [])
            return True
        return send(self, notify, fd, contents)

    monkeypatch.setattr(carrier, "send", sometimes)
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        publishing = Publishing(publisher, "t", range(100))
        assert read(subscription, 100) == list(range(100))
        publishing.finish()
        assert (subscription.gaps, lost) == ([], [])


def test_a_broken_link_whose_publisher_moves_again_and_again_takes_one_helper() -> None:
    with Agent() as reader, leased() as received:
        publisher = Agent()
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        with busy_helpers():
            publisher.stop()
            wait_until(lambda: (open_links.statistics(subscription) or {})["transport"] == "none")
            for port in range(1, 6):
                open_links.move(subscription, f"tcp://127.0.0.1:{port}")
            assert sum(map(len, received.helpers._waiting)) == 1
            subscription.close()


@pytest.mark.parametrize("transport", ["inproc", "unix", "tcp"])
def test_a_publisher_that_is_found_at_another_endpoint_is_heard_on(transport: str) -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport=transport)
        publisher.publish("t", 0)
        assert read(subscription, 1) == [0]
        link = open_links._table.of[subscription]
        before = link._transport
        open_links.move(subscription, publisher.rep_endpoint.replace("127.0.0.1", "localhost"))
        wait_until(lambda: link._transport not in (None, before))
        for number in range(1, 4):
            publisher.publish("t", number)
        assert read(subscription, 3) == [1, 2, 3]
        assert (subscription.dropped, subscription.gaps) == (0, [])
