"""Defaults of topics: what a settings file may say, who says more than it, and what it changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pzc import Agent, PolicyRefused, Protocol, block, drop, latest, mailbox

from tests.contract.rigs.children import Child
from tests.contract.rigs.pairs import LONG, pair, publish_until_full, read
from tests.contract.rigs.peers import KEY, TIMEOUT


def _write(path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Make this the settings file of what follows."""
    file = path / "lab.toml"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("PZC_CONFIG", str(file))


@pytest.mark.parametrize("advertise", [False, True], ids=["not advertised", "advertised"])
def test_buffers_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advertise: bool
) -> None:
    _write(tmp_path, monkeypatch, "[topics.t]\nbuffers = 3\n")
    with pair() as (publisher, reader):
        if advertise:
            publisher.advertise("t", scope="host")
        reader.subscribe(publisher.rep_endpoint, "t", policy=block(0.0), transport="unix")
        assert publish_until_full(publisher, "t") == 3


def test_an_argument_says_more_than_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, monkeypatch, "[topics.t]\nbuffers = 3\nscope = 'host'\n")
    with pair() as (publisher, reader):
        publisher.advertise("t", buffers=5, scope="all")
        reader.subscribe(publisher.rep_endpoint, "t", policy=block(0.0), transport="tcp")
        assert publish_until_full(publisher, "t") == 5


def test_a_scope_of_the_file_holds_before_the_first_publication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, monkeypatch, "[topics.'secret*']\nscope = 'host'\n")
    with pair() as (publisher, reader):
        with pytest.raises(PolicyRefused, match="does not leave its host"):
            reader.subscribe(publisher.rep_endpoint, "secret.one", transport="tcp")
        reader.subscribe(publisher.rep_endpoint, "open")


def test_a_throttle_of_the_file_thins_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, monkeypatch, "[topics.t]\nthrottle = 0.001\n")
    with Agent() as publisher:
        assert [publisher.publish("t", number) for number in range(3)] == [1, 1, 1]


def test_the_last_one_is_kept_when_the_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, monkeypatch, "[topics.'*']\nkeep_last = true\n")
    with pair() as (publisher, reader):
        publisher.publish("t", "kept")
        assert reader.subscribe(publisher.rep_endpoint, "t", initial=True).recv(TIMEOUT).content == "kept"


def test_an_acknowledgement_is_waited_for_when_the_file_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, monkeypatch, "[topics.t]\nack_wait = 0.01\n")
    with pair() as (publisher, reader):
        reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        publisher.publish("t", 1)
        assert publisher.counters["ack_waits_missed"] == 1


@pytest.mark.needs("memfd", "unix")
@pytest.mark.parametrize("loaned", [False, True])
def test_without_zero_copy_nothing_lies_in_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaned: bool
) -> None:
    _write(tmp_path, monkeypatch, "[topics.t]\nzero_copy = false\n")
    with pair() as (publisher, reader):
        subscriptions = {
            topic: reader.subscribe(publisher.rep_endpoint, topic, policy=LONG, transport="unix")
            for topic in ("t", "u")
        }
        for topic, subscription in subscriptions.items():
            if loaned:
                with publisher.loan(topic, 1 << 20, "u1") as array:
                    array[:] = 7
            else:
                publisher.publish(topic, np.full(1 << 20, 7, "u1"))
            with subscription.recv_zero_copy(TIMEOUT) as notification:
                assert notification.content.sum() == 7 << 20
                (link,) = publisher.statistics()["links"]["links"]
                assert link["leases"] == (topic == "u")


def test_policy_and_transport_of_a_subscription_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, monkeypatch, "[topics.t]\npolicy = 'latest(2)'\ntransport = 'unix'\n")
    with pair() as (publisher, reader):
        found = reader.subscribe(publisher.rep_endpoint, "t")
        assert (found.policy, found.transport) == (latest(2), "unix")
        said = reader.subscribe(publisher.rep_endpoint, "t", policy=drop(7), transport="tcp")
        assert (said.policy, said.transport) == (drop(7), "tcp")
        assert len(publisher.statistics()["links"]["links"]) == 1


def test_the_environment_says_more_than_the_file_and_less_than_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, monkeypatch, "transport = 'inproc'\n[topics.t]\ntransport = 'tcp'\n")
    with pair() as (publisher, reader):
        of_topic = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG)
        of_file = reader.subscribe(publisher.rep_endpoint, "u", policy=LONG)
    monkeypatch.setenv("PZC_TRANSPORT", "unix")
    with pair() as (publisher, reader):
        of_environment = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG)
        of_argument = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="inproc")
    assert [each.transport for each in (of_topic, of_file, of_environment, of_argument)] == [
        "tcp", "inproc", "unix", "inproc",
    ]  # fmt: skip


def test_the_environment_takes_notifications_over_its_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_TRANSPORT", "unix")
    with Child() as child, Agent(protocol=Protocol(KEY)) as reader:
        subscription = reader.subscribe(child.rep, "t")
        assert subscription.transport == "unix"
        reader.request(child.rep, ["t", 3])
        assert read(subscription, 3) == [0, 1, 2]


def test_what_no_link_can_serve_is_not_forced_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_TRANSPORT", "unix")
    original = Protocol("", accept=("PZC00",))
    with Agent(protocol=original) as publisher, Agent(protocol=Protocol("")) as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        assert publisher.wait_for_subscribers("t", timeout=TIMEOUT)
        publisher.publish("t", 1)
        assert read(subscription, 1) == [1]
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", raw=True)
        publisher.publish("t", 1)
        assert len(subscription.recv(TIMEOUT).frames) == 5


@pytest.mark.parametrize("suite", [None, "aes256-gcm"])
def test_a_secret_topic_is_broadcast_only_when_all_is_sealed(suite: str | None) -> None:
    with (
        Agent(protocol=Protocol(KEY, suite=suite)) as publisher,
        Agent(protocol=Protocol(KEY, suite=suite)) as reader,
    ):
        publisher.advertise("t", secret=True)
        if suite is None:
            with pytest.raises(PolicyRefused, match="secret and not broadcast"):
                reader.subscribe(publisher.rep_endpoint, "t", transport="tcp")
        by_itself = reader.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        broadcast = suite and reader.subscribe(publisher.rep_endpoint, "t", transport="tcp")
        publisher.publish("t", 7)
        assert [each.recv(TIMEOUT).content for each in (by_itself, broadcast) if each] == [7] * (
            2 if suite else 1
        )
