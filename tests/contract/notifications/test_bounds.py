"""Notifications: what is still counted wrongly, held up or left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import zmq

from pzc import (
    Agent,
    Key,
    Keyring,
    Notification,
    Protocol,
    Proxy,
    PzcError,
    Role,
    Server,
    acknowledge,
    discover,
    latest,
    mailbox,
)  # fmt: skip
from pzc.testing import Timings

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT, Inbox

SOON = 1.0
"""Seconds for what happens at once when nothing holds it up."""


@contextmanager
def python(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program in a process of its own, which is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ.copy(),
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


# Counting


def test_losses_of_other_keys_are_not_those_of_a_subscription_of_one_key(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    large = np.zeros(20_000)
    with reader.subscribe(
        publisher.rep_endpoint, "t", policy=latest(1), transport="unix", key="mine"
    ) as mine:
        for _ in range(300):
            publisher.publish("t", large, key="others")
        publisher.publish("t", "end", key="mine")
        assert mine.recv(TIMEOUT).content == "end"
        assert (mine.dropped, mine.gaps) == (0, [])


def test_an_eviction_is_told_to_the_subscription_of_its_key_only(agents: tuple[Agent, Agent]) -> None:
    publisher, reader = agents
    entered, leave = threading.Event(), threading.Event()

    def stuck(notification: Notification) -> None:
        entered.set()
        leave.wait(TIMEOUT)

    policy = mailbox(max_messages=5)
    noisy = reader.subscribe(publisher.rep_endpoint, "t", stuck, policy=policy, key="noisy")
    quiet = [
        reader.subscribe(publisher.rep_endpoint, "t", policy=policy, key=f"quiet {number}")
        for number in range(3)
    ]
    publisher.publish("t", "first", key="noisy")
    assert entered.wait(TIMEOUT)
    for number in range(20):
        publisher.publish("t", number, key="noisy")
    leave.set()
    wait_until(lambda: noisy.dropped and noisy.received + noisy.dropped == 21)
    assert [each.dropped for each in quiet] == [0, 0, 0]


# What is held up, or left behind


WITHOUT_THREADS = """
import os, resource, sys, threading
from pathlib import Path
from pzc import Agent, PzcError, latest
GIB = 1 << 30
with Agent(discovery=False) as reader:
    reader.request(sys.argv[1], "ping")
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    threading.stack_size(GIB)
    resource.setrlimit(resource.RLIMIT_AS, (size + GIB // 2, resource.RLIM_INFINITY))
    try:
        reader.subscribe(sys.argv[1], "t", policy=latest(1), transport="unix")
    except PzcError:
        print("typed", flush=True)
    except BaseException as error:
        print(repr(error), flush=True)
    sys.stdin.read()
    os._exit(0)
"""


def test_a_link_that_finds_no_free_thread_fails_with_a_typed_error_and_leaves_nothing() -> None:
    with (
        Agent(discovery=False) as publisher,
        python(WITHOUT_THREADS, publisher.rep_endpoint) as reader,
    ):
        assert said(reader) == "typed"
        assert publisher.statistics()["links"]["links"] == []


FROZEN = """
import sys
from pzc import Agent
made = [Agent(name=f"frozen{number}") for number in range(8)]
print(*[each.rep_endpoint for each in made], flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_names_that_cannot_be_reached_do_not_delay_the_reconnection_of_another() -> None:
    with Agent() as reader, ThreadPoolExecutor(1) as pool, python(FROZEN) as child:
        with Agent(name="moving"):
            reader.subscribe("moving", "t")
            said(child)
            wait_until(lambda: len(discover("frozen*", 0.2, kind="agent")) == 8)
            child.send_signal(signal.SIGSTOP)
            pool.submit(reader.subscribe, "frozen*", "t", timeout=2 * SOON)
            threading.Event().wait(SOON / 2)  # by then it waits for as many of them as it may
        with Agent(name="moving") as again:
            assert again.wait_for_subscribers("t", 1, SOON)


def test_lost_publishers_take_no_thread_each() -> None:
    with Timings(publisher_retry=0.05), Agent(discovery=False) as reader, python(FROZEN) as child:
        for endpoint in said(child).split():
            reader.subscribe(endpoint, "t", transport="tcp")
        before = threading.active_count()
        child.kill()
        pause = threading.Event()
        for _ in range(150):
            assert threading.active_count() - before < 5
            pause.wait(0.01)


# Others


KEYS = {role: Key(f"a long secret of the {role.name}", role.name.lower(), role) for role in Role}


def holding(role: Role) -> Protocol:
    """The protocol of who holds every key and uses one."""
    return Protocol(keyring=Keyring(KEYS.values(), KEYS[role]))


def test_the_mailbox_of_an_observer_does_not_hold_up_its_publisher() -> None:
    with (
        Timings(mail_block=SOON),
        Agent(discovery=False, protocol=holding(Role.ADMIN)) as publisher,
        Agent(discovery=False, protocol=holding(Role.OBSERVER)) as observer,
    ):
        policy = mailbox(max_messages=1, when_full="block")
        with suppress(PzcError):
            observer.subscribe(publisher.rep_endpoint, "t", policy=policy, manual_ack=True)
        assert [publisher.publish("t", number) for number in range(5)] == [1, 2, 3, 4, 5]


def test_an_observer_does_not_take_the_name_of_a_recorder_s_mailbox() -> None:
    with (
        Agent(discovery=False, protocol=holding(Role.ADMIN)) as publisher,
        Agent(discovery=False, protocol=holding(Role.OBSERVER)) as observer,
        Agent(discovery=False, protocol=holding(Role.OPERATOR)) as recorder,
    ):
        with suppress(PzcError):
            observer.subscribe(publisher.rep_endpoint, "t", policy=mailbox(name="recorder"))
        inbox = Inbox()
        recorder.subscribe(publisher.rep_endpoint, "t", inbox, policy=mailbox(name="recorder"))
        publisher.publish("t", 7)
        assert inbox.next().content == 7


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_what_a_reader_is_not_done_with_stays_within_the_bytes_of_its_mailbox(
    agents: tuple[Agent, Agent], transport: str
) -> None:
    publisher, reader = agents
    policy = mailbox(max_bytes=1 << 20)
    reading = reader.subscribe(
        publisher.rep_endpoint, "t", policy=policy, manual_ack=True, transport=transport
    )
    for number in range(64):
        publisher.publish("t", bytes(1 << 17))
        wait_until(lambda number=number: reading.pending >= min(number + 1, 7))
    wait_until(lambda: reading.dropped or reading.pending == 64)
    (told,) = publisher.statistics()["mailboxes"]
    assert told["bytes"] <= (1 << 20) + (1 << 17)  # one may always wait beside what is under way
    acknowledge([reading.recv(TIMEOUT) for _ in range(7)])
    wait_until(lambda: reading.received + reading.pending + reading.dropped == 64)


def test_the_mailboxes_of_an_observer_hold_no_more_than_its_key_may() -> None:
    mib = 1 << 20
    with (
        Timings(mail_bytes_per_key=4 * mib),
        Agent(discovery=False, protocol=holding(Role.ADMIN)) as publisher,
        Agent(discovery=False, protocol=holding(Role.OBSERVER)) as observer,
        Agent(discovery=False, protocol=holding(Role.OPERATOR)) as recorder,
    ):
        large = mailbox(max_bytes=4 << 30)
        hoards = [
            observer.subscribe(publisher.rep_endpoint, topic, policy=large, manual_ack=True)
            for topic in ("a", "b", "c")
        ]
        recorded = recorder.subscribe(publisher.rep_endpoint, "a", policy=mailbox(name="recorder"))
        for number in range(64):
            for topic in ("a", "b", "c"):
                publisher.publish(topic, bytes(mib // 8))
            assert recorded.recv(TIMEOUT).sequence == number + 1
        held = {each["reader"]: each["bytes"] for each in publisher.statistics()["mailboxes"]}
        assert sum(held.values()) - held["recorder"] <= 5 * mib
        wait_until(lambda: any(each.dropped for each in hoards))


class Safe:
    """Takes a combination."""

    def open(self, combination: str) -> bool:
        return bool(combination)


def test_a_stranger_does_not_receive_who_called_what(tmp_path: Path) -> None:
    context = zmq.Context()
    with (
        context.socket(zmq.SUB) as stranger,
        Server(Safe(), audit=tmp_path / "calls", discovery=False, protocol=holding(Role.ADMIN)) as server,
        Proxy(server.rep_endpoint, protocol=holding(Role.OPERATOR), transport="tcp") as safe,
    ):
        try:
            stranger.setsockopt(zmq.SUBSCRIBE, b"")
            stranger.connect(server.pub_endpoint)
            assert server.wait_for_subscribers("pzc/calls", 1, TIMEOUT)
            safe.open("open sesame")
            heard: list[bytes] = []
            while stranger.poll(300):
                heard += stranger.recv_multipart()
            assert not any(b"sesame" in frame for frame in heard)
        finally:
            stranger.close(0)
            context.term()
