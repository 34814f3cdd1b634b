from __future__ import annotations

import gc
import weakref

import pytest

from pzc import (
    Agent,
    Keyring,
    Protocol,
    Subscription,
)
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind

from tests.agents.receiving import leased
from tests.contract.rigs.peers import (
    KEY,
    TIMEOUT,
    run_threads,
)

pytestmark = pytest.mark.usefixtures("broadcast")


@pytest.mark.parametrize("seal", [False, True])
def test_a_raw_subscription_keeps_the_frames_as_they_came(seal: bool) -> None:
    codec = Codec(Keyring.from_key(KEY))
    with Agent(protocol=Protocol(KEY, seal=seal)) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        raw = reader.subscribe(publisher.rep_endpoint, "*", raw=True)
        plain = reader.subscribe(publisher.rep_endpoint, "t")
        for number in range(3):
            publisher.publish("t", [number], key="k")
        for number in range(3):
            notification = raw.recv(TIMEOUT)
            envelope = codec.open(notification.frames, kind=Kind.NOTIFICATION)
            assert envelope.decode() == [number] == plain.recv(TIMEOUT).content
            assert (envelope.sender, envelope.topic, envelope.key) == (publisher.agent_id, "t", "k")
            assert notification.sequence == envelope.sequence == number + 1
            assert notification.epoch == envelope.epoch == publisher.epoch
            assert notification.key_id == envelope.key_id != ""


def test_many_threads_may_subscribe_and_close_at_once(publisher: Agent, reader: Agent) -> None:
    keep = reader.subscribe(publisher.rep_endpoint, "t")

    gone: list[weakref.ref[Subscription]] = []

    def come_and_go() -> None:
        for number in range(15):
            with reader.subscribe(publisher.rep_endpoint, f"t{number % 3}") as subscription:
                gone.append(weakref.ref(subscription))
                publisher.publish(f"t{number % 3}", number)
                assert subscription.recv(TIMEOUT).publisher == publisher.agent_id

    run_threads(*[come_and_go] * 6)
    publisher.publish("t", "still")
    assert keep.recv(TIMEOUT).content == "still"
    assert [entry["topic"] for entry in reader.statistics()["subscriptions"]] == ["t"]
    with leased() as received:
        received.loop.run(bool)
        assert received.loop.errors == 0
    gc.collect()
    assert [each() for each in gone] == [None] * 90
