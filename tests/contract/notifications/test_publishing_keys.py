"""Notifications are signed with a key that every reader may hold, because it lets nobody call: line 4.5."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from pzc import Agent, ConfigError, Key, Keyring, PolicyRefused, Protocol, Role, block, drop, mailbox

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import Elsewhere, Forwarder, Inbox, balance, in_place_of
from tests.contract.rigs.strangers import strangers

TIMEOUT = 10.0


PUBLISHING = """
active = "admin"
publish = "everybody"
[keys.admin]
secret = "the secret of the administrators"
role = "admin"
[keys.alice]
secret = "the secret of the operator Alice"
[keys.everybody]
secret = "the secret of everybody who looks"
role = "observer"
"""


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """A keyring whose notifications are signed with an observer's key."""
    path = tmp_path / "keys.toml"
    path.write_text(PUBLISHING, encoding="utf-8")
    path.chmod(0o600)
    return path


def test_notifications_are_signed_with_the_publishing_key(ring: Path) -> None:
    everybody = Key("the secret of everybody who looks", role=Role.OBSERVER)
    protocol = Protocol(keyring=Keyring.load(ring))
    with Agent(protocol=protocol, discovery=False) as agent, strangers(agent) as heard:
        agent.publish("v", 1)
        frames = heard()
        agent.publish("v", {"a": 2}, key="k")
        more = heard()
    for each in (frames, more):
        assert each[4].endswith(everybody.key_id.encode())
        assert Protocol(keyring=Keyring([everybody])).parse(each)[1] == "v"


@pytest.mark.parametrize(
    ("publish", "secret"),
    [('publish = "everybody"\n', "the secret of everybody who looks"), ("", "the secret that is set")],
    ids=["it names one", "it names none"],
)
def test_a_key_that_is_set_beside_a_keyring_signs_notifications_unless_the_file_says_who_publishes(
    ring: Path, monkeypatch: pytest.MonkeyPatch, publish: str, secret: str
) -> None:
    ring.write_text(PUBLISHING.replace('publish = "everybody"\n', publish), encoding="utf-8")
    monkeypatch.setenv("PZC_KEYRING", str(ring))
    monkeypatch.setenv("PZC_KEY", "the secret that is set")
    with Agent(discovery=False) as agent, strangers(agent) as heard:
        agent.publish("v", 1)
        assert heard()[4].endswith(Key(secret).key_id.encode())


@pytest.mark.parametrize(
    ("policy", "transport"),
    [("drop", "tcp"), ("drop", "unix"), ("block", "tcp"), ("block", "unix"), ("mailbox", "tcp")],
)
def test_readers_verify_what_is_signed_with_the_publishing_key(
    ring: Path, policy: str, transport: str
) -> None:
    policies = {"drop": drop, "block": block, "mailbox": mailbox}
    keyring = Keyring.load(ring)
    with (
        Agent(protocol=Protocol(keyring=keyring), discovery=False) as agent,
        Agent(protocol=Protocol(keyring=Keyring(keyring, list(keyring)[1])), discovery=False) as reader,
    ):
        inbox = reader.subscribe(
            agent.rep_endpoint, "v", policy=policies[policy](), transport=cast("Any", transport)
        )
        assert agent.wait_for_subscribers("v", 1, TIMEOUT)
        agent.publish("v", {"volts": 1.5})
        assert inbox.recv(TIMEOUT).content == {"volts": 1.5}


def test_who_holds_the_publishing_key_alone_can_read(ring: Path) -> None:
    everybody = Key("the secret of everybody who looks", "everybody", Role.OBSERVER)
    with (
        Agent(protocol=Protocol(keyring=Keyring.load(ring)), discovery=False) as agent,
        Agent(protocol=Protocol(keyring=Keyring([everybody])), discovery=False) as reader,
    ):
        inbox = reader.subscribe(agent.rep_endpoint, "v")
        assert agent.wait_for_subscribers("v", 1, TIMEOUT)
        agent.publish("v", 1)
        assert inbox.recv(TIMEOUT).content == 1


@pytest.mark.parametrize("transport", [None, "tcp"])
def test_a_reader_without_the_publishing_key_gets_notifications_from_elsewhere_over_a_link(
    ring: Path, transport: str | None
) -> None:
    keyring = Keyring.load(ring)
    alice = Protocol(keyring=Keyring([list(keyring)[1]]))
    with Elsewhere(protocol=Protocol(keyring=keyring)) as agent, Agent(protocol=alice) as reader:
        inbox = reader.subscribe(agent.rep_endpoint, "v", transport=cast("Any", transport))
        agent.publish("v", 1)
        assert inbox.recv(TIMEOUT).content == 1
        with pytest.raises(PolicyRefused, match="signs with a key that is held here"):
            reader.subscribe(agent.rep_endpoint, "v", raw=True)


def test_a_publisher_that_comes_back_with_a_key_that_its_reader_does_not_hold_goes_on_over_a_link() -> None:
    old, new = Key("the secret of last year", "old"), Key("the secret of this year", "new")
    before, after = (Protocol(keyring=Keyring([old, new], active=key)) for key in (old, new))
    with Agent(protocol=Protocol(keyring=Keyring([old]))) as reader:
        with Elsewhere(protocol=before) as agent:
            inbox = reader.subscribe(agent.rep_endpoint, "v")
            agent.publish("v", 1)
            assert inbox.recv(TIMEOUT).content == 1
            endpoints = agent.rep_endpoint, agent.pub_endpoint
        with in_place_of(agent, Elsewhere, *endpoints, protocol=after) as agent:
            assert agent.wait_for_subscribers("v", 1, TIMEOUT)
            agent.publish("v", 2)
            wait_until(lambda: balance(inbox) == 2)
            assert inbox.recv(TIMEOUT).content == 2


def test_a_publishing_key_that_lets_readers_call_is_refused() -> None:
    alice, bob = (
        Key("the secret of the operator Alice", "alice", Role.OPERATOR),
        Key("the secret of the admin Bob"),
    )
    with pytest.raises(ConfigError, match=r"alice for publishing has the role operator.*observer's only"):
        Keyring([alice, bob], bob, alice)
    with pytest.raises(ConfigError, match=r"publish = 'eve' is none of its keys: alice"):
        Keyring.parse('publish = "eve"\n[keys.alice]\nsecret = "the secret of the operator Alice"\n')


def test_a_notification_signed_with_another_key_of_the_ring_is_refused() -> None:
    lab, guest = (
        Key("the laboratory's secret", "lab", Role.ADMIN),
        Key("a guest's secret", "guest", Role.OBSERVER),
    )

    def protocol() -> Protocol:
        return Protocol(keyring=Keyring([lab, guest], active=lab))

    guests = Protocol(keyring=Keyring([guest]))

    def forged(number: int, frames: list[bytes]) -> list[list[bytes]]:
        if number != 1:
            return [frames]
        _, sender, topic, sequence, _ = frames[0].decode().split("+")
        made = guests.encode(sender, topic, "forged", sequence=int(sequence))
        return [[bytes(frame) for frame in made]]

    with Elsewhere(protocol=protocol()) as publisher, Agent(protocol=protocol()) as reader:
        with Forwarder(publisher.pub_endpoint, forged) as forwarder:
            publisher.advertised = forwarder.endpoint
            inbox = Inbox()
            reader.subscribe(publisher.rep_endpoint, "level", inbox)
            publisher.publish("level", 1)
            publisher.publish("level", 2)
            assert inbox.next().content == 2
            assert reader.counters["refused_SignatureError"] == 1
