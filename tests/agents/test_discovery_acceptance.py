"""G1 to G6: agents in processes of their own find each other, and notice each other's end.

Times are measured where they are felt, with the monotonic clock of the receiver. Bounds are those that were
promised where a machine under load keeps them, else those of a wait.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time

import msgspec
import psutil
import pytest

from pzc import Agent, PeerLost, Policy, Proxy, block, discover
from pzc.discovery.directory import SILENCE
from pzc.discovery.events import Appeared, Vanished

from tests.agents.naming_rig import Child, Watch
from tests.conftest import free_port
from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.peers import TIMEOUT, Inbox

SLACK = 1.0
"""Seconds more than promised that a loaded machine may take to run a thread."""


def test_g1_who_starts_later_gets_data_of_those_that_announced_long_before() -> None:
    inbox = Inbox()
    with Child("psu", topics="voltage"):
        with Watch() as watch:
            watch.until(Appeared, "/psu/voltage")
            watch.participant.ask(())
        begun = time.monotonic()
        with Agent() as late, Proxy("psu") as psu:
            late.subscribe("psu", "voltage", inbox)
            psu.publish("voltage", 5)
            assert inbox.next().content == 5
        assert time.monotonic() - begun < 1.5 + SLACK


def test_g2_who_is_killed_is_gone_after_three_to_four_seconds() -> None:
    with Watch() as watch, Child("psu", topics="voltage") as child:
        watch.until(Appeared, "/psu/voltage")
        heard = max(process.heard for process in watch.participant.processes())
        child.kill()
        killed = time.monotonic()
        gone, event = watch.until(Vanished, "/psu/voltage")
        assert event.reason == "silent"
        assert gone - killed >= 2.9
        assert gone - max(heard, killed - 1.0) <= 5.0 + SLACK
        assert watch.participant.find("/psu") is None


def test_g2_who_ends_is_gone_at_once() -> None:
    with Watch() as watch, Child("psu", topics="voltage") as child:
        watch.until(Appeared, "/psu/voltage")
        with Proxy("psu") as psu:
            psu._proxy_stop_server()
        asked = time.monotonic()
        gone, event = watch.until(Vanished, "/psu/voltage")
        assert event.reason in ("bye", "withdrawn")
        assert gone - asked < 0.3 + SLACK
        child.process.wait(TIMEOUT)


def test_g2_who_is_frozen_for_two_seconds_stays() -> None:
    with Watch() as watch, Child("psu") as child:
        watch.until(Appeared, "/psu")
        vanished = threading.Event()
        watch.participant.listen(lambda event: isinstance(event, Vanished) and vanished.set())
        child.process.send_signal(signal.SIGSTOP)
        try:
            assert not vanished.wait(2.0)
        finally:
            child.process.send_signal(signal.SIGCONT)
        before = time.monotonic()
        eventually(lambda: max(each.heard for each in watch.participant.processes()) > before)
        assert not vanished.is_set()


def test_g2_who_was_frozen_itself_takes_nobody_for_dead() -> None:
    with Agent(name="meter"), Child("frozen") as child, Proxy(child.endpoint) as frozen:
        eventually(lambda: "/meter" in frozen.names())
        child.process.send_signal(signal.SIGSTOP)
        try:
            threading.Event().wait(SILENCE + 1.5)
        finally:
            child.process.send_signal(signal.SIGCONT)
        assert "/meter" in frozen.names()
        assert frozen.vanished() == []


def hostile(chance: random.Random) -> bytes:
    size = chance.choice((0, 1, 7, 40, 300, 1400, 1401, 9000, 65_507))
    data = bytearray(chance.randbytes(size))
    if chance.random() < 0.5:
        data[:4] = b"PZD\x01"
    if chance.random() < 0.3:
        body: object = []
        for _ in range(chance.randrange(400)):
            body = [body]
        data = bytearray(b"PZD\x01" + bytes((chance.randrange(8), 0, 0)) + msgspec.msgpack.encode(body))
    if chance.random() < 0.2:
        body = [chance.choice((None, -1, "x", b"y", 2**63, {"a": 1}, [1, 2], 1.5)) for _ in range(10)]
        data = bytearray(b"PZD\x01" + bytes((chance.randrange(8), 0, 0)) + msgspec.msgpack.encode(body))
    return bytes(data)


def test_g3_ten_thousand_random_datagrams_do_no_harm() -> None:
    chance = random.Random(3)
    with Agent(name="meter") as meter, Agent() as reader:
        assert reader.request("meter", 1) == 1
        group = os.environ["PZC_DISCOVERY_PORT"]
        before = psutil.Process().memory_info().rss
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            for number in range(10_000):
                place = "239.255.80.90" if number % 4 else "127.0.0.1"
                sender.sendto(hostile(chance), (place, int(group)))
        eventually(lambda: sum(meter.statistics()["discovery"]["refused"].values()) > 100)
        assert psutil.Process().memory_info().rss - before < 10 << 20
        with Child("psu", topics="voltage"), Proxy("psu") as psu:
            with reader.subscribe("psu", "voltage") as subscription:
                psu.publish("voltage", 5)
                assert subscription.recv(TIMEOUT).content == 5
        assert reader.request("meter", 2) == 2


def test_g4_equal_names_in_two_partitions_do_not_mix() -> None:
    left, right = Inbox(), Inbox()
    with (
        Child("psu", topics="voltage", PZC_PARTITION="left"),
        Child("psu", topics="voltage", PZC_PARTITION="right"),
        Agent(partition="left") as in_left,
        Agent(partition="right") as in_right,
    ):
        in_left.subscribe("psu", "voltage", left)
        in_right.subscribe("psu", "voltage", right)
        in_left.request("psu", 0)
        with Proxy("left/psu") as one, Proxy("right/psu") as two:
            one.publish("voltage", "left")
            two.publish("voltage", "right")
            one.publish("voltage", "end")
            two.publish("voltage", "end")
        assert (left.until("end"), right.until("end")) == (["left"], ["right"])
        assert discover("*", 0.3) == []


def test_g5_a_topic_of_the_process_never_leaves_it() -> None:
    with Agent(name="meter") as meter, Child("other") as other, Proxy("other") as proxy:
        meter.advertise("inside", scope="process")
        meter.publish("inside", 1)
        assert "/meter" in proxy.names()
        assert "/meter/inside" not in proxy.names()
        assert other.process.poll() is None


def test_g6_the_first_notification_after_waiting_for_subscribers_is_not_lost() -> None:
    inbox = Inbox()
    with Child("psu"), Proxy("psu") as psu:
        for number in range(200):
            topic = f"fresh{number}"
            with Agent() as reader:
                with reader.subscribe("psu", topic, inbox):
                    assert psu.wait(topic)
                    psu.publish(topic, number)
                    assert inbox.next().content == number


def test_a_proxy_follows_a_killed_server_to_another_port() -> None:
    with Child("psu") as first, Proxy("psu") as psu:
        assert psu.add(1, 1) == 2
        first.kill()
        with Child("psu") as second:
            assert second.endpoint != first.endpoint
            begun = time.monotonic()

            def works() -> bool:
                try:
                    return psu.add(1, 1) == 2
                except (PeerLost, TimeoutError):
                    return False

            eventually(works)
            assert time.monotonic() - begun < 3.0 + SLACK


@pytest.mark.parametrize("policy", [None, block(5.0)], ids=["broadcast", "link"])
def test_a_subscription_follows_a_killed_server_to_another_port(policy: Policy | None) -> None:
    inbox = Inbox()
    with Child("psu", topics="voltage") as first, Agent() as reader:
        subscription = reader.subscribe("psu", "voltage", inbox, policy=policy)
        with Proxy(first.endpoint) as psu:
            psu.publish("voltage", 1)
        assert inbox.next().content == 1
        first.kill()
        with Child("psu", topics="voltage") as second, Proxy(second.endpoint) as psu:
            begun = time.monotonic()
            assert psu.wait("voltage")
            psu.publish("voltage", 2)
            assert inbox.next().content == 2
            assert time.monotonic() - begun < 3.0 + SLACK
        assert [gap.restarted for gap in subscription.gaps] == [True]


def test_two_networks_hear_each_other_through_a_relay() -> None:
    port = str(free_port())
    with (
        Child("far", PZC_DISCOVERY_PORT=port),
        Child("near", PZC_RELAY=f"127.0.0.1:{port}") as near,
        Proxy(near.endpoint) as asking,
    ):
        eventually(lambda: "/far" in asking.names())
