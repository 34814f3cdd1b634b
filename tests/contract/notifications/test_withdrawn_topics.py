"""What publishers offer and withdraw, and who they are: what the suites of other systems asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import zmq

from pzc import (
    Agent,
    PeerLost,
    Protocol,
    block,
    mailbox,
    watch,
)  # fmt: skip

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT, Inbox, Noted

SOON = 1.0
"""Seconds for what happens at once when it is there."""


def test_a_bare_socket_that_publishes_can_be_subscribed_to() -> None:
    inbox = Inbox()
    context = zmq.Context()
    with context.socket(zmq.XPUB) as socket, Agent(discovery=False) as reader:
        socket.bind("tcp://127.0.0.1:*")
        endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        protocol = Protocol(dialect="PZC00")
        try:
            reader.subscribe(endpoint, "t", inbox, timeout=SOON)
            assert socket.poll(1000)
            socket.send_multipart(protocol.format(endpoint, "t", 7))
            assert inbox.next().content == 7
        finally:
            socket.close(0)
            context.term()


def is_bound(socket: zmq.Socket[bytes], endpoint: str) -> bool:
    """Whether a socket could be bound; the one before may not be closed yet."""
    with suppress(zmq.ZMQError):
        socket.bind(endpoint)
        return True
    return False


def test_a_bare_socket_that_comes_back_is_heard_again() -> None:
    inbox, endpoint = Inbox(), "tcp://127.0.0.1:*"
    context, protocol = zmq.Context(), Protocol(dialect="PZC00")
    with Agent(discovery=False) as reader:
        try:
            for number in range(2):
                with context.socket(zmq.XPUB) as socket:
                    wait_until(partial(is_bound, socket, endpoint))
                    endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
                    if not number:
                        reader.subscribe(endpoint, "t", inbox, timeout=SOON)
                    assert socket.poll(int(1000 * TIMEOUT))
                    socket.send_multipart(protocol.format(endpoint, "t", number))
                    assert inbox.next().content == number
        finally:
            context.destroy(0)


def test_a_socket_that_is_no_agent_and_publishes_nothing_is_refused() -> None:
    context = zmq.Context()
    with context.socket(zmq.PULL) as socket, Agent(discovery=False) as reader:
        socket.bind("tcp://127.0.0.1:*")
        try:
            with pytest.raises(PeerLost):
                reader.subscribe(socket.getsockopt_string(zmq.LAST_ENDPOINT), "t", timeout=0.4)
        finally:
            socket.close(0)
            context.term()


WAYS: list[dict[str, Any]] = [
    {}, {"transport": "inproc"}, {"transport": "unix"}, {"transport": "tcp"},
    {"transport": "tcp", "policy": block(5)}, {"policy": mailbox()},
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_one_topic_can_be_withdrawn(way: dict[str, Any]) -> None:
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        publisher.publish("kept", 1)
        publisher.publish("gone", 1)
        lost, others = Noted(), Noted()
        gone = reader.subscribe(publisher.rep_endpoint, "gone", **way)
        kept = reader.subscribe(publisher.rep_endpoint, "kept", **way)
        every = reader.subscribe(publisher.rep_endpoint, "*", **way)
        gone.on_lost, kept.on_lost, every.on_lost = lost, others, others
        assert publisher.withdraw("gone")
        assert "withdrawn topic 'gone'" in lost.next(5 * SOON)[0]
        publisher.publish("kept", 2)
        assert kept.recv(TIMEOUT).content == 2
        assert publisher.statistics()["topics"].keys() == {"kept"}
        assert others.calls == []


@pytest.mark.parametrize("way", WAYS)
def test_who_still_subscribes_to_a_withdrawn_topic_gets_what_is_published_again(way: dict[str, Any]) -> None:
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        publisher.publish("t", 1)
        with reader.subscribe(publisher.rep_endpoint, "t", **way) as subscription:
            publisher.withdraw("t")
            assert publisher.publish("t", "again") == 2
            assert subscription.recv(TIMEOUT).content == "again"
            assert (subscription.dropped, subscription.gaps) == (0, [])
        assert publisher.statistics()["topics"].keys() == {"t"}


def test_what_was_said_and_kept_of_a_withdrawn_topic_is_forgotten() -> None:
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        publisher.advertise("t", type=float, keep_last=True, scope="process")
        publisher.publish("t", 1.5)
        publisher.withdraw("t")
        with reader.subscribe(publisher.rep_endpoint, "t", initial=True, transport="tcp") as subscription:
            publisher.publish("t", "text")
            notification = subscription.recv(TIMEOUT)
        assert (notification.content, notification.type) == ("text", "")


def test_a_withdrawn_topic_is_not_found_any_more_and_again_when_it_is_published() -> None:
    with Agent(name="meter") as meter, watch(kind="topic", pattern="/meter/*") as watching:
        came, left = Noted(), Noted()
        watching.on_appear, watching.on_leave = came, left
        for _ in range(2):
            meter.publish("t", 1)
            assert "/meter/t" in str(came.next())
            assert meter.withdraw("t")
            assert "/meter/t" in str(left.next())


@pytest.mark.parametrize("option", [{"secret": True}, {"scope": "host"}])
def test_nobody_hears_by_broadcast_of_the_end_of_a_topic_that_is_not_broadcast(
    timings: Callable[..., None], option: dict[str, Any]
) -> None:
    timings(topic_beat=0.02)
    context = zmq.Context()
    with context.socket(zmq.SUB) as stranger, Agent(discovery=False) as publisher:
        stranger.setsockopt(zmq.SUBSCRIBE, b"")
        stranger.connect(publisher.pub_endpoint)
        try:
            assert publisher.wait_for_subscribers("open", 1, TIMEOUT)
            publisher.advertise("hidden", **option)
            publisher.publish("hidden", 1)
            publisher.withdraw("hidden")
            publisher.publish("open", 1)
            publisher.withdraw("open")
            heard = b""
            while b"__lasts__" not in heard:
                assert stranger.poll(int(1000 * TIMEOUT))
                heard += b"".join(stranger.recv_multipart())
            assert b"hidden" not in heard
        finally:
            stranger.close(0)
            context.term()


def test_a_topic_that_is_not_there_cannot_be_withdrawn() -> None:
    with Agent(discovery=False) as publisher:
        assert not publisher.withdraw("t")
        publisher.publish("t", 1)
        assert [publisher.withdraw("t") for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    "options",
    [
        {}, {"transport": "inproc"}, {"transport": "unix"}, {"transport": "tcp"}, {"policy": mailbox()},
        {"policy": mailbox(), "raw": True}, {"transport": "tcp", "raw": True}, {"initial": True},
        {"transport": "tcp", "policy": block(5)},
    ],
)  # fmt: skip
@pytest.mark.parametrize("topic", ["t", "*"])
def test_a_notification_tells_its_type_and_partition(options: dict[str, Any], topic: str) -> None:
    with Agent(discovery=False, partition="lab") as publisher, Agent(discovery=False) as reader:
        publisher.advertise("t", type="Reading", keep_last=True)
        publisher.publish("t", 7)
        with reader.subscribe(publisher.rep_endpoint, topic, **options) as subscription:
            for number in (8, 9):
                publisher.publish("t", number)
            notifications = [subscription.recv(TIMEOUT) for _ in range(2)]
    assert {(each.type, each.partition) for each in notifications} == {("Reading", "lab")}


def test_a_topic_of_which_no_type_was_said_has_none() -> None:
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        with reader.subscribe(publisher.rep_endpoint, "t") as subscription:
            publisher.publish("t", 7)
            assert subscription.recv(TIMEOUT).type == ""


def test_a_publisher_tells_the_names_of_its_readers() -> None:
    with Agent(discovery=False) as publisher, Agent(name="wall", discovery=False) as reader:
        with reader.subscribe(publisher.rep_endpoint, "t", transport="unix"):
            publisher.publish("t", 7)
            assert "wall" in str(publisher.statistics())
