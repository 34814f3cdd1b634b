from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from pzc import Agent, Keyring, Protocol
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind

from tests.agents.in_parts import InParts
from tests.contract.rigs import listening
from tests.contract.rigs.listening import Watched, listen
from tests.contract.rigs.peers import KEY, TIMEOUT, BareSubscriber, Frames

publisher, reader, context = listening.publisher, listening.reader, listening.context


@pytest.fixture
def parts() -> Iterator[InParts]:
    with InParts() as made:
        yield made


def end_of(publisher: Watched) -> bytes:
    """The filter that is waited for by `arrived`."""
    return f"\1PZC00+{publisher.rep_endpoint}+end".encode()


def arrived(publisher: Watched) -> bool:
    """What was sent before that filter has been read."""
    return publisher.wait_for_subscribers("end", 1, TIMEOUT)


def test_the_last_close_takes_the_filter_away(parts: InParts, reader: Agent) -> None:
    publisher = parts
    first, second = (reader.subscribe(publisher.rep_endpoint, "t") for _ in range(2))
    first.close()
    publisher.publish("t", "still")
    assert second.recv(TIMEOUT).content == "still"
    second.close()
    publisher.wait_until(lambda: publisher.statistics()["topics"]["t"]["subscribers"] == 0)
    assert publisher.dialects("t") == ()


def test_a_raw_socket_gets_the_frames_of_the_original_only_if_it_asked(
    parts: InParts, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    publisher = parts
    assert publisher.dialects("val") == ()
    socket = listen(context, publisher, f"PZC00+{publisher.rep_endpoint}+val")
    assert publisher.wait_for_subscribers("val", 1, TIMEOUT)
    assert publisher.dialects("val") == ("PZC00",)
    publisher.publish("val", {"x": 1})
    frames = socket.recv_multipart()
    assert frames[0] == f"PZC00+{publisher.rep_endpoint}+val".encode()
    assert Protocol(dialect="PZC00").parse(frames)[2] == {"x": 1}
    assert frames[4] == b""


def test_each_dialect_is_emitted_while_somebody_asks_for_it(
    parts: InParts, reader: Agent, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    publisher = parts
    everything = listen(context, publisher, "")
    publisher.wait_until(lambda: publisher.dialects("val") == ("PZC01", "PZC00"))
    publisher.publish("val", 1)
    assert sorted(everything.recv_multipart()[0][:5] for _ in range(2)) == [b"PZC00", b"PZC01"]
    everything.close()
    publisher.wait_until(lambda: publisher.dialects("val") == ())
    reader.subscribe(publisher.rep_endpoint, "val", transport="tcp")
    assert publisher.dialects("val") == ("PZC01",)


def test_a_dialect_that_is_not_accepted_is_not_emitted(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with InParts(Protocol(accept=["PZC01"])) as publisher:
        listen(context, publisher, "")
        publisher.wait_until(lambda: publisher.dialects("val"))
        assert publisher.dialects("val") == ("PZC01",)


@pytest.mark.usefixtures("beside_originals")
def test_the_signed_frames_of_both_dialects_verify(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    codec = Codec(Keyring.from_key(KEY))
    with Agent(protocol=Protocol(KEY)) as publisher:
        socket = listen(context, publisher, "")
        assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
        publisher.publish("t", 5, key="k")
        received: list[Frames] = [socket.recv_multipart() for _ in range(2)]
        opened = {e.dialect: e for e in (codec.open(f, kind=Kind.NOTIFICATION) for f in received)}
    assert {d: (e.sender, e.topic, e.sequence, e.key) for d, e in opened.items()} == {
        "PZC00": (publisher.rep_endpoint, "t", 0, ""),
        "PZC01": (publisher.agent_id, "t", 1, "k"),
    }


def test_garbage_filters_are_survived_and_counted(publisher: Watched, reader: Agent) -> None:
    subscription = reader.subscribe(publisher.rep_endpoint, "t")
    with BareSubscriber(publisher.pub_endpoint, b"XSUB") as peer:
        peer.send(b"\2what", b"\xff\xfe", b"\1" + bytes(range(256)), b"\0never set", end_of(publisher))
        assert arrived(publisher)
        assert publisher.counters["pub_malformed"] == 3
        publisher.publish("t", "alive")
        assert subscription.recv(TIMEOUT).content == "alive"


def test_a_filter_cancelled_by_somebody_else_silences_nobody(publisher: Watched, reader: Agent) -> None:
    subscription = reader.subscribe(publisher.rep_endpoint, "t")
    everything = reader.subscribe(publisher.rep_endpoint, "*")
    me = f"PZC01+{publisher.agent_id}+"
    with BareSubscriber(publisher.pub_endpoint) as peer:
        peer.send(b"\0" + f"{me}t+".encode(), b"\0" + me.encode(), end_of(publisher))
        assert arrived(publisher)
        publisher.publish("t", "heard")
        assert subscription.recv(TIMEOUT).content == "heard"
        assert everything.recv(TIMEOUT).content == "heard"
        assert publisher.wait_for_subscribers("t", 1, TIMEOUT)


def test_a_filter_hidden_in_a_message_of_several_frames_is_no_filter(
    publisher: Watched, reader: Agent
) -> None:
    wanted = f"PZC01+{publisher.agent_id}+t+".encode()
    with BareSubscriber(publisher.pub_endpoint, b"XSUB") as peer:
        peer.send_in_parts(b"user", b"\1" + wanted)
        peer.send(end_of(publisher))
        assert arrived(publisher)
        assert publisher.counters["pub_malformed"] == 1
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
    publisher.wait_until(lambda: not publisher.wait_for_subscribers("end", 1, 0))
    publisher.publish("t", "heard")
    assert subscription.recv(TIMEOUT).content == "heard"


def test_ten_thousand_foreign_filters_do_not_hide_a_subscriber(publisher: Watched, reader: Agent) -> None:
    with BareSubscriber(publisher.pub_endpoint) as peer:
        peer.send(*(b"\1PZC01+%d" % number for number in range(10_000)), end_of(publisher))
        subscription = reader.subscribe(publisher.rep_endpoint, "t", timeout=TIMEOUT)
        assert arrived(publisher)
        publisher.publish("t", "heard")
        assert subscription.recv(TIMEOUT).content == "heard"
