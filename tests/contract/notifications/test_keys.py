"""One subscription to several keys, on every plane and with every policy."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pzc import (
    Agent,
    ConfigError,
    LocalProtocolError,
    Policy,
    Refused,
    Subscription,
    block,
    drop,
    latest,
    mailbox,
)

from tests.contract.rigs.mailing import publisher_and_reader
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT

WAYS: list[tuple[Policy, str | None]] = [
    (drop(1000), None),
    (drop(1000), "tcp"),
    (drop(1000), "inproc"),
    (drop(1000), "unix"),
    (latest(1000), "tcp"),
    (latest(1000), "inproc"),
    (block(), "inproc"),
    (block(), "unix"),
    (block(), "tcp"),
    (mailbox(), None),
    (mailbox(name="named"), None),
]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0].name}{'+' if way[0].durable else ''}-{way[1]}")
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    policy, transport = request.param
    return {"policy": policy, "transport": transport}


def found(subscription: Subscription, number: int) -> list[tuple[str, Any]]:
    taken = [subscription.recv(TIMEOUT) for _ in range(number)]
    return [(notification.key, notification.content) for notification in taken]


def publish(publisher: Agent, *keys: str | None) -> None:
    for number, key in enumerate(keys):
        publisher.publish("t", number, key=key)


def test_several_keys_come_in_one_stream_and_no_other_one(way: dict[str, Any]) -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", key=["a", "b", "a"], **way)
        publish(publisher, "a", "c", "b", None, "b", "ab", "a")
        assert found(subscription, 4) == [("a", 0), ("b", 2), ("b", 4), ("a", 6)]
        assert (subscription.received, subscription.dropped, subscription.gaps) == (4, 0, [])


def test_a_callback_gets_several_keys(way: dict[str, Any]) -> None:
    came: list[tuple[str, Any]] = []
    with publisher_and_reader() as (publisher, agent):
        agent.subscribe(
            publisher.rep_endpoint, "t", lambda n: came.append((n.key, n.content)), key={"a", "b"}, **way
        )
        publish(publisher, "a", "c", "b")
        wait_until(lambda: len(came) == 2)
        assert came == [("a", 0), ("b", 2)]


@pytest.mark.parametrize("policy", [drop(1000), block(), mailbox()], ids=["drop", "block", "mailbox"])
def test_a_pattern_of_publishers_gathers_several_keys(policy: Policy) -> None:
    with Agent(name="keyed1") as publisher, Agent(name="reader") as agent:
        subscription = agent.subscribe("keyed*", "t", key=["a", "b"], policy=policy)
        wait_until(lambda: publisher.wait_for_subscribers("t", 1, 0))
        publish(publisher, "c", "a", None, "b")
        assert found(subscription, 2) == [("a", 1), ("b", 3)]
        assert (subscription.received, subscription.dropped) == (2, 0)


def test_a_pattern_with_keys_asks_each_mailbox_for_these_only() -> None:
    with Agent(name="keyed1") as publisher, Agent(name="reader") as agent:
        subscription = agent.subscribe("keyed*", "t", key=["a", "b"], policy=mailbox())
        wait_until(lambda: [each["subscriptions"] for each in publisher.statistics()["mailboxes"]] == [2])
        assert not subscription.closed


@pytest.mark.parametrize("policy", [drop(100), mailbox()], ids=["drop", "mailbox"])
def test_the_key_of_nothing_stands_for_what_has_none(policy: Policy) -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", key=["", "a"], policy=policy)
        publish(publisher, None, "b", "a")
        assert found(subscription, 2) == [("", 0), ("a", 2)]


@pytest.mark.parametrize("policy", [drop(100), mailbox()], ids=["drop", "mailbox"])
def test_several_keys_of_all_topics(policy: Policy) -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "*", key=["a", "b"], policy=policy)
        for topic, key in [("t", "a"), ("t", "c"), ("u", "b"), ("u", None)]:
            publisher.publish(topic, topic, key=key)
        assert found(subscription, 2) == [("a", "t"), ("b", "u")]


@pytest.mark.parametrize("transport", [None, "inproc", "unix"])
def test_what_was_kept_of_several_keys_comes_first(transport: str | None) -> None:
    with publisher_and_reader() as (publisher, agent):
        publisher.advertise("t", keep_last=True)
        publish(publisher, "a", "b", "c", "b")
        subscription = agent.subscribe(
            publisher.rep_endpoint,
            "t",
            key=["a", "b", "d"],
            policy=block(),
            initial=True,
            transport=transport,
        )
        publish(publisher, "d")
        assert found(subscription, 3) == [("a", 0), ("b", 3), ("d", 0)]


UNUSABLE: dict[str, tuple[object, type[Exception]]] = {
    "no key in a list": ([], ConfigError),
    "a number": (5, ConfigError),
    "bytes": (b"a", ConfigError),
    "a number in a list": (["a", 5], LocalProtocolError),
    "bytes in a list": ([b"a"], LocalProtocolError),
    "None in a list": (["a", None], LocalProtocolError),
    "half a character": ("\ud800", LocalProtocolError),
    "half a character in a list": (["\ud800"], LocalProtocolError),
    "too long": ("k" * 2049, LocalProtocolError),
}


@pytest.mark.parametrize("name", UNUSABLE)
@pytest.mark.parametrize("policy", [drop(), mailbox()], ids=["drop", "mailbox"])
def test_what_is_no_key_is_refused_before_anybody_is_asked(name: str, policy: Policy) -> None:
    key, error = UNUSABLE[name]
    with Agent(discovery=False) as agent, pytest.raises(error, match="key"):
        agent.subscribe("tcp://127.0.0.1:1", "t", key=cast("Any", key), policy=policy)


@pytest.mark.parametrize("key", [5, b"a", ["a"], "\ud800", "k" * 2049], ids=lambda key: repr(key)[:10])
@pytest.mark.parametrize("policy", [drop(), block(), mailbox()], ids=["drop", "block", "mailbox"])
def test_nothing_is_published_with_what_is_no_key_and_readers_get_what_follows(
    key: Any, policy: Policy
) -> None:
    """A link or a mailbox could neither send it nor go on behind it."""
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=policy, transport="tcp")
        with pytest.raises(LocalProtocolError, match="key"):
            publisher.publish("t", 0, key=key)
        with pytest.raises(LocalProtocolError, match="key"), publisher.loan("t", 3, "u1", key=key):
            pass
        assert publisher.publish("t", "good") == 1
        assert subscription.recv(TIMEOUT).content == "good"


def test_a_key_may_be_of_a_kind_of_string() -> None:
    class Name(str):
        __slots__ = ()

    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox(), key=[Name("a"), "b"])
        publisher.publish("t", 1, key=Name("a"))
        assert found(subscription, 1) == [("a", 1)]


@pytest.mark.parametrize("topic", [5, b"t", None])
def test_a_topic_is_text(topic: Any) -> None:
    with Agent(discovery=False) as agent:
        with pytest.raises(LocalProtocolError, match="topic"):
            agent.subscribe("tcp://127.0.0.1:1", topic)
        with pytest.raises(LocalProtocolError, match="topic"):
            agent.publish(topic, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": mailbox}, {"policy": "mailbox"}, {"fallback": drop}, {"callback": 5}, {"publisher": 5},
        {"throttle": "x"}, {"throttle": 0}, {"timeout": "x"}, {"timeout": None}, {"timeout": float("nan")},
        {"timeout": 1e300}, {"type": 5}, {"type": b"float"}, {"executor": 5}, {"transport": "ipc"},
    ],
    ids=lambda wrong: "-".join(f"{name} {getattr(value, '__name__', value)}" for name, value in wrong.items()),
)  # fmt: skip
@pytest.mark.parametrize("publisher", ["tcp://127.0.0.1:1", "cam*"])
def test_an_argument_of_the_wrong_kind_is_told_by_name(wrong: dict[str, Any], publisher: str) -> None:
    arguments = {"publisher": publisher, "topic": "t", **wrong}
    (name,) = wrong
    with Agent(discovery=False) as agent:
        with pytest.raises(ConfigError, match="policy=" if name == "fallback" else f"{name}="):
            agent.subscribe(**arguments)


# --- what a publisher keeps for a subscription ------------------------------------------------------------

AT_PUBLISHER = pytest.mark.parametrize(
    "way", [(block(), "unix"), (block(), "tcp"), (mailbox(), None)], indirect=True, ids=str
)


def long_keys(number: int, length: int = 2000) -> list[str]:
    return [f"{each:0{length}}" for each in range(number)]


@AT_PUBLISHER
def test_the_keys_of_one_subscription_have_a_mebibyte_of_text(way: dict[str, Any]) -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", key=long_keys(500), **way)
        with pytest.raises(Refused, match="1048576 bytes, not 1200000"):
            agent.subscribe(publisher.rep_endpoint, "t", key=long_keys(600), **way)
        publish(publisher, "no", *long_keys(1))
        assert subscription.recv(TIMEOUT).content == 1


@AT_PUBLISHER
def test_all_that_one_key_subscribes_to_has_a_bound_in_bytes(way: dict[str, Any]) -> None:
    with publisher_and_reader() as (publisher, agent):
        keys = long_keys(500, 2048)

        def ask(topic: object) -> Subscription:
            return agent.subscribe(publisher.rep_endpoint, str(topic), key=keys, **way)

        made = [ask(number) for number in range(60)]
        with pytest.raises(Refused, match="no room: the topics and keys"):
            made += [ask(number) for number in range(60, 70)]
        made[0].close()
        assert ask("again")
