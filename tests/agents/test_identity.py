"""A key of the ring speaks for its holder only, not for the agents of others."""

from __future__ import annotations

import pytest

from pzc import Agent, Key, Keyring, Protocol, Role, Server, SignatureError
from pzc.protocol.codec import Codec
from pzc.protocol.frames import Kind

from tests.contract.rigs.calling import Middle, proxied
from tests.contract.rigs.peers import Elsewhere, Forwarder, Inbox

LAB = Key("the laboratory's secret", "lab", Role.ADMIN)
GUEST = Key("a guest's secret", "guest", Role.OBSERVER)


def protocol() -> Protocol:
    return Protocol(keyring=Keyring([LAB, GUEST], active=LAB))


class Forger:
    """Writes messages anew in their sender's name, with the guest's key."""

    def __init__(self) -> None:
        self.reads = Codec(Keyring([LAB, GUEST], active=LAB))
        self.writes = Codec(Keyring([GUEST]))

    def notification(self, frames: list[bytes]) -> list[bytes]:
        envelope = self.reads.open(frames, kind=Kind.NOTIFICATION)
        made = self.writes.encode(
            envelope.sender, envelope.topic, "forged", msgid=envelope.msgid, sequence=envelope.sequence
        )
        return [bytes(frame) for frame in made]

    def reply(self, frames: list[bytes], receiver: str) -> list[bytes]:
        envelope = self.reads.open(frames, kind=Kind.REPLY, receiver=receiver)
        made = self.writes.encode(
            envelope.sender,
            "",
            ("PSMessage", "return", "forged"),
            msgid=envelope.msgid,
            own_id=frames[0].split(b"+")[3].decode(),
            receiver=receiver,
        )
        return [bytes(frame) for frame in made]


def test_a_notification_signed_with_another_key_of_the_ring_is_refused() -> None:
    forger = Forger()
    with Elsewhere(protocol=protocol()) as publisher, Agent(protocol=protocol()) as reader:
        with Forwarder(
            publisher.pub_endpoint, lambda n, frames: [forger.notification(frames) if n == 1 else frames]
        ) as forwarder:
            publisher.advertised = forwarder.endpoint
            inbox = Inbox()
            reader.subscribe(publisher.rep_endpoint, "level", inbox)
            publisher.publish("level", 1)
            publisher.publish("level", 2)
            assert inbox.next().content == 2
            assert reader.counters["refused_SignatureError"] == 1


def test_a_reply_signed_with_another_key_of_the_ring_is_refused() -> None:
    forger = Forger()
    with Server({"calibration": 1}, protocol=protocol()) as server:
        forge = [False]

        def alter(way: str, _number: int, frames: list[bytes]) -> list[list[bytes]]:
            if way == "request":
                receivers.append(frames[0].split(b"+")[1].decode())
            return [forger.reply(frames, receivers[-1]) if way == "reply" and forge[0] else frames]

        receivers: list[str] = []
        with Middle(server.rep_endpoint, alter) as middle:
            with proxied(middle.endpoint, protocol=protocol()) as proxy:
                forge[0] = True
                with pytest.raises(SignatureError, match="by another agent or with another key"):
                    proxy.keys()
