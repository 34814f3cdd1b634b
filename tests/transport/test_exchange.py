"""What an exchange does, whichever lane it uses."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from pzc import AgentClosed, CallTimeout, PeerLost
from pzc.protocol.errors import ReplayedMessage, SerializeError, SignatureError
from pzc.protocol.message import Message
from pzc.protocol.signing import Suite

from tests.contract.rigs.calling import TIMEOUT
from tests.transport.exchanging import CALL, Ends, Make, pair, soon

NEVER = threading.Event()


@pytest.fixture
def ends(makes: tuple[Make, Make]) -> Iterator[Ends]:
    made = pair(makes)
    yield made
    made.close()
    assert made.refused == []


def call(ends: Ends, content: object = CALL, answer: object = 3, **options: Any) -> None:
    """One round trip, looked at from both sides."""
    with ThreadPoolExecutor(2) as threads:
        asked = threads.submit(ends.asking.send, content, soon(), **options)
        request = ends.answering.receive(soon(), NEVER)
        answered = threads.submit(ends.answering.send, answer, soon(), answers=request)
        reply = ends.asking.receive(soon(), NEVER)
    np.testing.assert_equal(request.decode(), content)
    np.testing.assert_equal(reply.decode(writable=True), answer)
    assert reply.msgid == answered.result(TIMEOUT) == request.msgid == asked.result(TIMEOUT)


def test_a_request_comes_as_it_was_sent_and_its_answer_comes_back(ends: Ends) -> None:
    for number in range(10):
        call(ends, number, [number])


def test_what_came_at_once_behind_the_first_message_is_received(makes: tuple[Make, Make]) -> None:
    ends = pair(makes, behind=["second", "x" * 100_000, "fourth"])
    received = [ends.answering.receive(soon(), NEVER).decode() for _ in range(3)]
    ends.close()
    assert received == ["second", "x" * 100_000, "fourth"]


@pytest.mark.parametrize("suite", [None, *list(Suite)[1:]], ids=str)
@pytest.mark.parametrize("serializer", ["pickle", "json", "msgpack"])
def test_every_suite_and_serializer_goes_both_ways(
    makes: tuple[Make, Make], suite: Suite | None, serializer: str
) -> None:
    ends = pair(makes, suite=suite, serializer=serializer)
    for number in range(3):
        call(ends, [number], {"is": number})
    ends.close()


def test_small_and_large_ones_of_all_kinds_keep_in_step(makes: tuple[Make, Make]) -> None:
    ends = pair(makes)
    contents = [5, b"x" * 70_000, np.arange(9), np.arange(40_000.0), b"y" * 65_000, "z", np.ones(300_000)]
    for content in contents * 3:
        call(ends, content, content)
        call(ends, "small", content)
        call(ends, content, "small")
    for name in ("json", "pickle", "msgpack", "pickle2"):
        call(ends, [name], "x", serializer=name)
    assert ends.refused == []
    ends.close()


def test_many_in_flight_are_received_in_their_order(ends: Ends) -> None:
    ids = ends.asking.send_many([(number, None) for number in range(500)], soon())
    requests = [ends.answering.receive(soon(), NEVER) for _ in ids]
    assert [(each.msgid, each.decode()) for each in requests] == [*zip(ids, range(500), strict=True)]
    ends.answering.send_many([(-each.decode(), each) for each in reversed(requests)], soon())
    replies = [ends.asking.receive(soon(), NEVER) for _ in ids]
    assert {each.msgid: each.decode() for each in replies} == {m: -n for n, m in enumerate(ids)}


def test_what_came_together_is_taken_together_whatever_carried_it(ends: Ends) -> None:
    contents = ["a", b"x" * 200_000, "b", np.ones(100_000), "c", *range(300)]
    with ThreadPoolExecutor(1) as sender:
        sent = sender.submit(ends.asking.send_many, [(each, None) for each in contents], soon())
        found: list[Message] = []
        while len(found) < len(contents):
            found += ends.answering.receive_many(soon(), NEVER)
        assert [each.msgid for each in found] == sent.result()
    for message, content in zip(found, contents, strict=True):
        np.testing.assert_equal(message.decode(), content)


def test_many_that_have_come_are_one_receipt(ends: Ends) -> None:
    ids = ends.asking.send_many([(number, None) for number in range(50)], soon())
    assert [each.msgid for each in ends.answering.receive_many(soon(), NEVER)] == ids
    with pytest.raises(CallTimeout):
        ends.answering.receive_many(soon(0.01), NEVER)


def test_what_came_is_all_given_once_nothing_is_readable_and_nothing_more_is_left(ends: Ends) -> None:
    contents = [*range(20), np.ones(10_000), *range(20)]
    ids, found = ends.asking.send_many([(each, None) for each in contents], soon()), list[Message | bytes]()
    while ends.answering.more or select.select([ends.answering], [], [], 0)[0]:
        found += ends.answering.ready(soon())
    assert [each.msgid for each in found if isinstance(each, Message)] == ids


@pytest.mark.parametrize("carried", [b"x" * 10, b"x" * 70_000])
def test_what_answers_a_question_that_is_named_may_be_given_as_its_content_alone(
    ends: Ends, carried: bytes
) -> None:
    named, other = ends.asking.send_many([(number, None) for number in range(2)], soon())
    for request in ends.answering.receive_many(soon(), NEVER):
        ends.answering.send(carried, soon(), answers=request)
    found = list[Message | bytes]()
    while len(found) < 2:
        select.select([ends.asking], [], [], 5)
        found += ends.asking.ready(soon(), named)
    content = ends.asking.session.pack(carried)[1]
    first, second = found
    assert first == content if isinstance(first, bytes) else first.msgid == named
    assert isinstance(second, Message)
    assert second.msgid == other


def test_a_content_that_was_packed_before_is_sent_as_it_was_then(ends: Ends) -> None:
    values = [1, np.arange(10_000.0)]
    packed = ends.asking.session.pack(values)
    values[0] = 2
    ends.asking.send_many([(packed, None)], soon(), packed=True)
    received = ends.answering.receive(soon(), NEVER).decode()
    assert received[0] == 1
    np.testing.assert_equal(received[1], np.arange(10_000.0))


def test_threads_that_send_over_one_connection_do_not_mix_messages(ends: Ends) -> None:
    def ask(number: int) -> list[str]:
        return [ends.asking.send(bytes(n * number), soon()) for n in range(40)]

    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(ask, 3000 * (n + 1)) for n in range(4)]
        taken = [ends.answering.receive(soon(), NEVER) for _ in range(160)]
    assert {each.msgid for each in taken} == {msgid for each in asked for msgid in each.result()}


def test_nothing_until_the_deadline_is_a_timeout_and_the_next_is_received(ends: Ends) -> None:
    for seconds in (0.01, 0.25):
        with pytest.raises(CallTimeout, match="may or may not have run"):
            ends.asking.receive(soon(seconds), NEVER)
    call(ends)


def test_an_agent_that_is_stopped_waits_no_longer(ends: Ends) -> None:
    closed = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(ends.asking.receive, soon(), closed)
        closed.set()
        with pytest.raises(AgentClosed):
            waiting.result(TIMEOUT)


def test_closing_ends_the_endless_wait_of_another_thread(ends: Ends) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(ends.asking.receive, float("inf"), NEVER)
        with pytest.raises(CallTimeout):
            ends.answering.receive(soon(0.02), NEVER)  # most likely the other one waits by now
        ends.asking.close()
        with pytest.raises(AgentClosed):
            waiting.result(TIMEOUT)


@pytest.mark.parametrize("content", ["small", b"x" * 200_000], ids=["small", "large"])
def test_what_was_sent_is_received_although_its_sender_has_gone(ends: Ends, content: object) -> None:
    ends.asking.send(content, soon())
    ends.asking.close()
    assert ends.answering.receive(soon(), NEVER).decode() == content
    for _ in range(2):
        with pytest.raises(PeerLost):
            ends.answering.receive(soon(), NEVER)
    with pytest.raises(PeerLost):
        ends.answering.receive_many(soon(), NEVER)
    with pytest.raises(PeerLost):
        ends.answering.send("x", soon())


def test_what_cannot_be_expressed_leaves_the_connection_as_it_was(ends: Ends) -> None:
    with pytest.raises(SerializeError):
        ends.asking.send(lambda: None, soon())
    call(ends)


def test_a_message_that_is_refused_is_told_and_the_next_one_is_taken(makes: tuple[Make, Make]) -> None:
    ends = pair(makes)
    good = ends.asking.session.seal("x", 1, 10_000)
    proof = bytes(good[4])
    ends.asking.transmit([*good[:4], proof[:-9] + bytes([proof[-9] ^ 1]) + proof[-8:]], soon())
    ends.asking.transmit(good, soon())
    ends.asking.transmit(good, soon())
    ends.asking.transmit(ends.asking.session.seal("y", 1, 10_001, serializer="json"), soon())
    assert [ends.answering.receive(soon(), NEVER).decode() for _ in range(2)] == ["x", "y"]
    assert [type(each) for each in ends.refused] == [SignatureError, ReplayedMessage]
    ends.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_closed_ends_leave_no_descriptor(makes: tuple[Make, Make]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        ends = pair(makes)
        call(ends, np.ones(50_000), "x")
        ends.close()
    assert len(os.listdir("/proc/self/fd")) <= before
