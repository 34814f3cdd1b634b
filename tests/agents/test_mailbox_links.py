"""Mailboxes at their publisher, asked by link messages as a reader says them."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from pzc import Agent, CallTimeout, PeerLost, PolicyRefused, Protocol, Refused
from pzc.protocol.link_messages import (
    Close,
    Command,
    Interests,
    Open,
)
from pzc.testing import Timings

from tests.agents.mailbox_reader import Reader
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT


@contextmanager
def rig(names: tuple[str, ...] = ("",), **agent: Any) -> Iterator[tuple[Any, ...]]:
    with Agent(protocol=Protocol(KEY), discovery=False, **agent) as publisher:
        readers = [Reader(publisher, name) for name in names]
        try:
            yield (publisher, *readers)
        finally:
            for reader in readers:
                reader.agent.stop()


def figures(publisher: Agent) -> list[tuple[int, int, int]]:
    """Of each mailbox what waits, what of it is not acknowledged, and what was delivered."""
    told = publisher.statistics()["mailboxes"]
    return [(each["waiting"], each["unacknowledged"], each["delivered"]) for each in told]


def test_what_was_published_before_it_is_polled_comes_and_stays_until_it_is_done_with() -> None:
    with rig() as (publisher, reader):
        publisher.publish("t", "before")
        assert reader.open().want(1, "t") == {"t": 1}
        for content in range(3):
            publisher.publish("t", content)
        assert figures(publisher) == [(3, 0, 0)]
        assert reader.contents() == [0, 1, 2]
        assert [number for _, number, _ in reader.got] == [2, 3, 4]
        assert figures(publisher) == [(3, 3, 0)]
        reader.done()
        assert figures(publisher) == [(0, 0, 3)]


def test_a_poll_that_waits_is_answered_when_something_is_published() -> None:
    with rig() as (publisher, reader):
        reader.open().want(1, "t")
        polled = threading.Thread(target=partial(reader.poll, TIMEOUT))
        polled.start()
        wait_until(lambda: publisher.publish("t", 1) > 0 and not polled.is_alive())
        polled.join(TIMEOUT)
        assert reader.got[0][2] == 1


def test_a_poll_in_vain_is_answered_in_its_time() -> None:
    with rig() as (_, reader):
        reader.open().want(1, "t")
        assert reader.poll(0.02).runs == []


def test_no_more_goes_than_there_is_room_for() -> None:
    with rig() as (publisher, reader):
        reader.open().want(1, "t")
        for content in range(5):
            publisher.publish("t", content)
        reader.poll(room=2)
        assert len(reader.got) == 2
        reader.poll(0.01, room=0)
        assert len(reader.got) == 2
        assert reader.contents() == [0, 1, 2, 3, 4]


def test_an_answer_that_was_lost_comes_again() -> None:
    with rig() as (publisher, reader):
        reader.open().want(1, "t")
        publisher.publish("t", 1)
        reader.poll()
        reader.received, reader.got = 0, []
        assert reader.contents() == [1]


def test_it_goes_on_where_it_was_when_it_is_opened_again() -> None:
    with rig() as (publisher, reader):
        reader.open().want(1, "t", bound=1)
        tenure = reader.tenure
        publisher.publish("t", 1)
        publisher.publish("t", 2)
        reader.poll()
        reader.lost.clear()
        reader.open().poll()
        assert (reader.tenure, reader.contents(), reader.lost) == (tenure, [2], {(1, "t"): 1})


def test_what_is_evicted_is_told_as_a_sum_of_its_topic() -> None:
    with rig() as (publisher, reader):
        reader.open().want(1, "*", bound=2)
        for topic in "tuu":
            publisher.publish(topic, topic)
        publisher.publish("u", "last")
        assert reader.contents() == ["u", "last"]
        assert reader.lost == {(1, "t"): 1, (1, "u"): 1}


def test_a_topic_that_stays_on_its_host_is_in_no_mailbox() -> None:
    with rig() as (publisher, reader):
        publisher.advertise("secret", scope="host")
        reader.open().want(1, "*")
        publisher.publish("secret", 1)
        publisher.publish("open", 2)
        assert reader.contents() == [2]
        with pytest.raises(PolicyRefused, match="does not leave"):
            reader.want(2, "secret")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"bound": 10**7}, "so large"),
        ({"max_bytes": 1 << 40}, "so large"),
        ({"keep": 1e9}, "so large"),
    ],
)
def test_what_is_too_large_is_refused(more: dict[str, Any], reason: str) -> None:
    with rig() as (_, reader), pytest.raises(PolicyRefused, match=reason):
        reader.open().want(1, "t", **more)


def test_a_topic_that_offers_no_mailbox_refuses_one() -> None:
    with rig() as (publisher, reader):
        publisher.advertise("t", policies=["block"])
        with pytest.raises(PolicyRefused, match="only block"):
            reader.open().want(1, "t")
        assert publisher.statistics()["mailboxes"] == []


def test_a_link_keeps_or_loses_and_never_both() -> None:
    with rig() as (_, reader):
        reader.open()
        applied = reader.say(Interests(reader.link, 1, [Command(1, "t", None, "drop", 5)]))
        assert applied.confirmed[0].code == "PolicyRefused"
        other = secrets.token_hex(16)
        reader.say(Open(other))
        applied = reader.say(Interests(other, 1, [Command(1, "t", None, "mailbox", 5)]))
        assert applied.confirmed[0].code == "PolicyRefused"


def test_a_publication_waits_for_room_and_is_not_published_when_there_is_none() -> None:
    with Timings(mail_block=0.05), rig() as (publisher, reader):
        reader.open().want(1, "t", bound=1, when_full="block")
        assert publisher.publish("t", 1) == 1
        with pytest.raises(CallTimeout, match="nothing was published"):
            publisher.publish("t", 2)
        reader.poll()
        with pytest.raises(CallTimeout):  # what is under way counts
            publisher.publish("t", 2)
        reader.done()
        assert publisher.publish("t", 2) == 2


def test_a_publication_that_waits_goes_on_when_the_mailbox_is_closed() -> None:
    with rig() as (publisher, reader):
        reader.open().want(1, "t", bound=1, when_full="block")
        publisher.publish("t", 1)
        waits = threading.Thread(target=publisher.publish, args=("t", 2))
        waits.start()
        reader.say(Close(reader.link))
        waits.join(TIMEOUT)
        assert not waits.is_alive()
        assert publisher.statistics()["mailboxes"] == []


def test_an_acknowledged_publication_does_not_wait_for_mailboxes() -> None:
    with rig() as (publisher, reader):
        reader.open().want(1, "t")
        begun = time.monotonic()
        publisher.publish("t", 1, ack_wait=TIMEOUT)
        assert time.monotonic() - begun < TIMEOUT


def test_whoever_takes_over_a_name_gets_what_was_kept_and_the_one_before_is_told() -> None:
    with rig(("n", "n")) as (publisher, first, second):
        first.open().want(1, "t")
        for content in range(4):
            publisher.publish("t", content)
        first.poll(room=2)
        first.upto = 1
        first.poll(0.01, 0)
        second.open()
        assert second.tenure > first.tenure
        assert second.want(7, "t") == {"t": 1}
        assert second.contents() == [1, 2, 3]
        with pytest.raises(PeerLost):
            first.poll()
        first.link, first.received = secrets.token_hex(16), 0
        with pytest.raises(Refused, match="is read by another process now"):
            first.open()


def test_another_wish_gets_a_copy_of_what_it_wants_of_what_was_kept() -> None:
    with rig(("n", "n")) as (publisher, first, second):
        first.open().want(1, "*")
        for topic in "tutu":
            publisher.publish(topic, topic)
        second.open()
        assert second.want(1, "u") == {"u": 0}
        assert second.contents() == ["u", "u"]


def test_a_mailbox_is_removed_when_its_reader_was_silent_for_too_long() -> None:
    with Timings(mail_grace=0.1, link_look=0.05), rig() as (publisher, reader):
        reader.open().want(1, "t", keep=0.1)
        publisher.publish("t", 1)
        wait_until(lambda: publisher.statistics()["mailboxes"] == [])
        with pytest.raises(PeerLost, match="silent"):
            reader.poll()


def test_silence_suspends_no_mailbox() -> None:
    with Timings(silence=0.2, link_look=0.05), rig() as (publisher, reader):
        reader.open().want(1, "t")
        reader.say(Open(secrets.token_hex(16)))
        publisher.publish("t", 1)
        wait_until(lambda: publisher.statistics()["links"]["links"][0]["state"] == "suspended")
        assert reader.contents() == [1]


def test_rows_have_id_and_signature_since_a_reader_wants_them() -> None:
    with rig(("", "")) as (publisher, raw, plain):
        plain.open().want(1, "t")
        raw.open().want(1, "t")
        publisher.publish("t", 1)
        raw.poll()
        raw.want(2, "u", raw=True)
        publisher.publish("u", 2)
        publisher.publish("t", 3)
        raw.poll()
        assert [bool(row.msgid and row.signature) for row in raw.rows] == [False, True, True]
        plain.poll()
        assert [bool(row.msgid or row.signature) for row in plain.rows] == [False, False]


def test_two_raw_mailboxes_get_the_same_frames() -> None:
    with rig(("", "")) as (publisher, one, other):
        for reader in (one, other):
            reader.open().want(1, "t", raw=True)
        publisher.publish("t", os.urandom(10_000))
        publisher.publish("t", 1)
        one.poll()
        other.poll()
        assert one.rows == other.rows
        assert len(one.rows) == 2


def test_a_topic_that_is_withdrawn_is_told() -> None:
    with rig() as (publisher, reader):
        reader.open().want(1, "t")
        publisher.publish("t", 1)
        publisher.withdraw("t")
        wait_until(lambda: bool(reader.poll().ended or reader.ended))
        assert "t" in reader.ended[0]
        publisher.publish("t", 2)
        assert reader.contents() == [1, 2]


def test_readers_are_counted_by_what_they_are_known_by() -> None:
    with rig() as (publisher, reader):
        told: list[tuple[str, ...]] = []
        publisher.on_readers("t", told.append)
        reader.open().want(1, "t", who="0123456789abcdef:me")
        reader.want(2, "t", who="0123456789abcdef:me")
        assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
        assert not publisher.wait_for_subscribers("t", 2, 0.01)
        wait_until(lambda: told[-1:] == [("me",)])
        reader.forget(1)
        reader.forget(2)
        wait_until(lambda: told[-1] == ())


def test_what_is_retained_comes_with_the_confirmation() -> None:
    with rig() as (publisher, reader):
        publisher.advertise("t", keep_last=True)
        publisher.publish("t", 7)
        reader.open()
        applied = reader.say(Interests(reader.link, 1, [Command(1, "t", None, "mailbox", 5, initial=True)]))
        assert [row.number for run in applied.retained for row in run.rows] == [1]


def test_a_stop_answers_the_poll_that_waits() -> None:
    with rig() as (publisher, reader):
        reader.open().want(1, "t")
        failed: list[BaseException] = []

        def poll() -> None:
            try:
                reader.poll(30)
            except Exception as exc:
                failed.append(exc)

        polled = threading.Thread(target=poll)
        polled.start()
        publisher.stop()
        polled.join(TIMEOUT)
        assert not polled.is_alive()


def test_mailboxes_of_a_key_have_room_for_so_many(timings: Callable[..., None]) -> None:
    timings(mailboxes=2)
    with rig(("one", "two")) as (_, one, two):
        one.open()
        with pytest.raises(Refused, match="no room"):
            two.open()
