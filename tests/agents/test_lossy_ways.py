"""Which way `drop` and `latest` take when nobody says, and that every notification is accounted for on it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pzc import Agent, Protocol, drop

from tests.agents.inside import WithoutUnix, break_connections, dialects_of, give_up_unix
from tests.contract.rigs.pairs import pair, read, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, Elsewhere, balance, in_place_of


def stranger() -> Agent:
    """A reader that shares no link inside the process with agents of the default protocol."""
    return Agent(protocol=Protocol(KEY, accept=("PZC01", "PZC00")))


def links_of(publisher: Agent) -> list[str]:
    return [link["transport"] for link in publisher.statistics()["links"]["links"]]


def test_without_a_unix_socket_they_come_by_broadcast(caplog: pytest.LogCaptureFixture) -> None:
    with Agent(protocol=Protocol(KEY)) as publisher, stranger() as reader:
        give_up_unix(publisher)
        with caplog.at_level(logging.INFO, "pzc.subscriber"):
            subscription = reader.subscribe(publisher.rep_endpoint, "t")
        publisher.publish("t", 1)
        assert subscription.recv(TIMEOUT).content == 1
        assert (subscription.transport, links_of(publisher)) == ("tcp", [])
        assert dialects_of(publisher, "t") == ("PZC01",)
        assert any("comes by broadcast" in record.getMessage() for record in caplog.records)


def test_a_publisher_behind_a_forwarder_is_heard_by_broadcast() -> None:
    with Elsewhere(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        reader.subscribe(publisher.rep_endpoint, "t")
        assert (links_of(publisher), dialects_of(publisher, "t")) == ([], ("PZC01",))


@pytest.mark.parametrize("said", ["argument", "environment", "file"])
def test_tcp_means_broadcast(said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if said == "environment":
        monkeypatch.setenv("PZC_TRANSPORT", "tcp")
    elif said == "file":
        (tmp_path / "pzc.toml").write_text('transport = "tcp"\n', encoding="utf-8")
        monkeypatch.setenv("PZC_CONFIG", str(tmp_path / "pzc.toml"))
    with pair() as (publisher, reader):
        asked = "tcp" if said == "argument" else None
        subscription = reader.subscribe(publisher.rep_endpoint, "t", transport=asked)
        assert (subscription.transport, links_of(publisher)) == ("tcp", [])
        assert dialects_of(publisher, "t") == ("PZC01",)


def test_a_publisher_that_comes_back_without_a_unix_socket_is_followed_over_tcp() -> None:
    with stranger() as reader:
        publisher = Agent(protocol=Protocol(KEY))
        subscription = reader.subscribe(publisher.rep_endpoint, "t")
        assert subscription.transport == "unix"
        publisher.stop()
        with in_place_of(publisher, WithoutUnix, publisher.rep_endpoint, protocol=Protocol(KEY)) as again:
            wait_until(lambda: subscription.gaps)
            assert again.publish("t", "here") == 1
            assert read(subscription, 1) == ["here"]
            assert (subscription.transport, balance(subscription)) == ("tcp", 1)


def test_without_its_unix_socket_it_goes_on_over_tcp_with_all_accounted_for() -> None:
    with Agent(protocol=Protocol(KEY)) as publisher, stranger() as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=drop(10_000))
        for number in range(500):
            publisher.publish("t", number)
            if number == 250:
                give_up_unix(publisher)
                break_connections()
        wait_until(lambda: balance(subscription) == 500)
        assert subscription.transport == "tcp"
