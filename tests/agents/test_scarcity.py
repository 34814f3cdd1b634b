"""What agents do without descriptors: nothing crashes, waits for ever or is lost uncounted, and it passes."""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import time
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent, PeerLost, Policy, Protocol, Refused, RemoteProtocolError, Server, mailbox, urgent
from pzc.agents.notifications.links import subscriber
from pzc.agents.server.audit import Audit
from pzc.agents.server.lane import Lane, QueueEntry
from pzc.transport import pipe

from tests.agents.inside import break_connections, subscribers
from tests.agents.scarcity import Scarcity
from tests.contract.rigs.pairs import LONG, Publishing, pair, read, wait_until
from tests.contract.rigs.peers import KEY
from tests.contract.rigs.processes import Workers


class Scarce:
    """In place of the kernel's: gives no descriptor for an epoll while ``there`` is False."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there = False
        self._real = pipe.select.epoll
        monkeypatch.setattr(pipe.select, "epoll", self)

    def __call__(self) -> Any:
        if self.there:
            return self._real()
        raise OSError(errno.EMFILE, "Too many open files")


# --- links -----------------------------------------------------------------------------------------------


def test_a_unix_link_that_cannot_be_had_is_refused_and_leaves_nothing_at_its_publisher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Scarce(monkeypatch)
    with pair() as (publisher, reader):
        for _ in range(3):
            with pytest.raises(Refused, match="ulimit -n"):
                reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        assert publisher.statistics()["links"]["links"] == []
        publisher.publish("t", 1)


def test_a_link_that_may_take_any_way_goes_over_tcp_then(monkeypatch: pytest.MonkeyPatch) -> None:
    scarce = Scarce(monkeypatch)
    with pair() as (publisher, reader):
        monkeypatch.setattr("pzc.agents.notifications.links.local.find", lambda *_: None)
        first = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG)
        assert first.transport == "tcp"
        publisher.publish("t", 1)
        assert read(first, 1) == [1]
        first.close()
        scarce.there = True
        assert reader.subscribe(publisher.rep_endpoint, "t", policy=LONG).transport == "unix"


def test_what_a_name_has_is_kept_for_its_next_reader_where_unix_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = mailbox(name="archive")
    with pair() as (publisher, reader), Agent(protocol=Protocol(KEY)) as other:
        reader.subscribe(publisher.rep_endpoint, "t", policy=policy, manual_ack=True)
        for number in range(3):
            publisher.publish("t", number)
        reader.stop()
        Scarce(monkeypatch)
        subscription = other.subscribe(publisher.rep_endpoint, "t", policy=policy)
        assert (subscription.transport, read(subscription, 3)) == ("tcp", [0, 1, 2])


@pytest.mark.parametrize("policy", [LONG, mailbox()], ids=["block", "mailbox"])
def test_a_broken_link_that_cannot_be_had_over_unix_any_more_goes_on_over_tcp_without_loss(
    monkeypatch: pytest.MonkeyPatch, policy: Policy
) -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport="unix")
        Scarce(monkeypatch)
        publishing = Publishing(publisher, "t", range(300))
        found = read(subscription, 100)
        break_connections()
        found += read(subscription, 200)
        publishing.finish()
        wait_until(lambda: subscription.transport == "tcp")
        publisher.publish("t", 300)
        assert [*found, *read(subscription, 1)] == list(range(301))
        assert (subscription.dropped, subscription.gaps) == (0, [])


def test_a_link_that_cannot_be_looked_after_does_not_keep_the_others_from_it(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat, poor = subscriber.Subscriber.beat, list[subscriber.Subscriber]()

    def sometimes(self: subscriber.Subscriber, now: float) -> None:
        if self in poor:
            raise MemoryError
        beat(self, now)

    monkeypatch.setattr(subscriber.Subscriber, "beat", sometimes)
    reader = workers.start()
    with pair() as (publisher, other):
        other.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        poor.extend(subscribers(publisher).links.values())
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "tcp")
        assert len(subscribers(publisher).links) == 2
        reader.freeze()
        links = subscribers(publisher).links
        wait_until(lambda: [each for each in links.values() if not each.queue.suspended] == poor)


# --- calls -----------------------------------------------------------------------------------------------


class Abrupt:
    """A plain method, one that runs at once, and one that is awaited."""

    def plain(self) -> str:
        """In its turn."""
        return "done"

    @urgent
    def at_once(self) -> str:
        """Beside whatever runs."""
        return "done"

    async def awaited(self) -> str:
        """In an event loop."""
        return "done"


@pytest.mark.parametrize(
    ("method", "thread"), [("plain", "pzc-lane"), ("at_once", "pzc-urgent"), ("awaited", "pzc-async")]
)
def test_a_call_for_which_there_was_no_thread_is_refused_and_the_next_one_runs(
    scarce: Scarcity, method: str, thread: str
) -> None:
    message = "PSMessage", "exec", {"name": method, "args": (), "kwargs": {}}
    with Server(Abrupt(), discovery=False) as server, Agent(discovery=False) as agent:

        def ask() -> Any:
            return agent.exchange(server.rep_endpoint, message, 3.0, transport="tcp").content

        scarce.append(thread)
        with contextlib.suppress(Refused, RemoteProtocolError):
            assert ask()[1] == "raise"
        assert agent.request(server.rep_endpoint, {"pzc": "running"}, 3.0)["running"] == []
        scarce.clear()
        assert ask() == ("PSMessage", "return", "done")


def test_a_server_that_has_no_memory_for_what_it_is_asked_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    there = mmap.mmap

    def copied_never(*args: Any, **options: Any) -> mmap.mmap:
        if options.get("access") == mmap.ACCESS_COPY:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return there(*args, **options)

    with Server(Abrupt(), discovery=False) as server, Agent(discovery=False) as agent:
        monkeypatch.setattr(mmap, "mmap", copied_never)
        with pytest.raises(PeerLost):
            agent.exchange(server.rep_endpoint, bytes(1 << 20), 3.0, transport="unix")
        wait_until(lambda: "Cannot allocate memory" in caplog.text)


class Waiter(QueueEntry):
    """Waits without a thread of its own."""

    def __init__(self) -> None:
        self.refused: list[Exception] = []

    def work(self) -> None:
        """Nothing to do."""

    def refuse(self, error: Exception) -> None:
        self.refused.append(error)


def test_however_many_wait_for_a_turn_each_is_told_that_there_is_no_thread(scarce: Scarcity) -> None:
    lane, first, waiting = Lane("crowded"), Waiter(), [Waiter() for _ in range(3000)]
    lane.enter(first)
    for each in waiting:
        assert not lane.submit(each)
    scarce.append("pzc-lane")
    lane.leave(first, time.monotonic())
    assert [len(each.refused) for each in waiting] == [1] * len(waiting)
    lane.enter(Waiter())


def test_an_audit_log_goes_on_where_there_is_no_thread_that_publishes_it(
    scarce: Scarcity, tmp_path: Path
) -> None:
    path, message = tmp_path / "log", ("PSMessage", "exec", {"name": "plain", "args": (), "kwargs": {}})
    with Server(Abrupt(), audit=path, discovery=False) as server, Agent(discovery=False) as agent:
        agent.subscribe(server.rep_endpoint, "pzc/calls")
        scarce.append("pzc-calls")
        agent.exchange(server.rep_endpoint, message, 3.0)
        wait_until(lambda: "plain" in path.read_text())
        scarce.clear()
        agent.exchange(server.rep_endpoint, message, 3.0)
    assert path.read_text().count("plain") == 2


def test_lines_of_an_audit_log_for_which_there_was_no_memory_are_counted_and_later_ones_written(
    tmp_path: Path,
) -> None:
    def no_memory() -> None:
        raise MemoryError("no memory")

    audit = Audit(tmp_path / "log")
    audit.put(None, no_memory)
    wait_until(lambda: audit.dropped == 1)
    audit.event("later")
    audit.close()
    lost, later = (json.loads(line) for line in (tmp_path / "log").read_text().splitlines())
    assert (lost["lost"], lost["reason"], later["event"]) == (1, "MemoryError: no memory", "later")
