"""Names that rules put in the place of others, and names in gz style, of agents in one process."""

from __future__ import annotations

from typing import Any

import pytest

from pzc import Agent, ConfigError, Server, UnknownName, discover

from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.peers import TIMEOUT, Inbox


def test_an_agent_is_found_by_the_name_that_a_rule_gives_it() -> None:
    with Agent(name="psu", remap={"psu": "u"}) as renamed, Agent() as asking:
        assert renamed.name == "u"
        assert asking.request("u", 1) == 1
        with pytest.raises(UnknownName):
            asking.request("psu", 1, timeout=0.3)


def test_a_server_is_found_by_the_name_that_a_rule_gives_it() -> None:
    with Server(object(), name="psu", remap=["psu:=u"]) as server, Agent() as asking:
        assert asking.resolve("u") == server.rep_endpoint


def test_a_name_that_is_looked_for_is_replaced_once() -> None:
    with Agent(name="b") as meant, Agent(name="c"), Agent(remap={"a": "b", "b": "c"}) as asking:
        assert asking.resolve("a") == meant.rep_endpoint


def test_a_new_name_is_looked_for_in_the_namespace_and_then_at_the_root() -> None:
    with Agent(name="b") as root, Agent(namespace="robot1", remap={"a": "b"}) as asking:
        assert asking.resolve("a") == root.rep_endpoint
        with Agent(name="b", namespace="robot1") as near:
            assert asking.resolve("a") == near.rep_endpoint


def test_a_new_name_may_be_that_of_a_static_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_PEERS", "far=tcp://127.0.0.1:5")
    with Agent(remap={"a": "far"}, discovery=False) as asking:
        assert asking.resolve("a") == "tcp://127.0.0.1:5"


def test_a_full_name_is_taken_as_it_is() -> None:
    with Agent(name="a") as meant, Agent(name="b"), Agent(remap={"a": "b"}) as asking:
        assert asking.resolve("@@/a") == meant.rep_endpoint


def test_a_subscription_to_a_replaced_name_gets_what_the_other_agent_publishes() -> None:
    inbox = Inbox()
    with Agent(name="b") as publisher, Agent(remap={"a": "b"}) as reader:
        reader.subscribe("a", "t", inbox)
        publisher.publish("t", 1)
        assert inbox.next().content == 1


def test_in_gz_style_a_name_with_a_slash_in_front_is_looked_for_at_the_root_alone() -> None:
    with (
        Agent(name="lamp", namespace="robot1") as near,
        Agent(name="lamp") as root,
        Agent(namespace="robot1", names="gz") as asking,
    ):
        assert asking.resolve("/lamp") == root.rep_endpoint
        assert asking.resolve("lamp") == near.rep_endpoint


def test_the_nodes_of_connected_topics_are_replaced() -> None:
    with Agent(namespace="robot1", remap={"a/t": "b/t"}) as agent:
        assert [agent.topology.node(name) for name in ("a/t", "c/t")] == ["/robot1/b/t", "/robot1/c/t"]


def test_a_private_name_is_below_that_of_its_agent() -> None:
    with (
        Agent(name="psu/motor", namespace="robot1") as motor,
        Agent(name="psu", namespace="robot1") as psu,
        Agent(namespace="robot1") as nameless,
    ):
        assert psu.resolve("~/motor") == motor.rep_endpoint
        assert psu.topology.node("~/state") == "/robot1/psu/state"
        with pytest.raises(ConfigError, match="the agent has no name"):
            nameless.resolve("~/motor")


@pytest.mark.parametrize("remap", [["a"], {"a": ""}, ["a:=b", "a:=c"], {"~/a": "b"}])
def test_a_rule_that_cannot_be_used_is_refused(remap: list[str] | dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        Agent(remap=remap)


def test_another_style_of_names_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected one of pzc, gz"):
        Agent(names="ros")  # pyright: ignore[reportArgumentType]


def announced(agent: Agent, kind: str) -> set[str]:
    """Full names of what an agent in partition sim announces of a kind."""
    found = discover("**", 0.05, kind=kind, partition="sim")
    return {f"@{each.partition}@{each.name}" for each in found if each.agent == agent.agent_id}


def test_the_topic_status_of_robot1_in_sim_is_found_by_its_full_name() -> None:
    with (
        Agent(name="psu", remap={"psu/state": "/status"}, namespace="robot1", partition="sim") as publisher,
        Agent(namespace="robot1", partition="sim") as reader,
    ):
        publisher.advertise("state")
        eventually(lambda: "@sim@/robot1/status" in announced(publisher, "topic"))
        subscription = reader.subscribe_graph("/status")
        eventually(lambda: subscription.sources)
        publisher.publish("state", "on")
        assert subscription.recv(TIMEOUT).content == "on"


@pytest.mark.parametrize(("names", "full"), [("pzc", "@sim@/robot1/status"), ("gz", "@sim@/status")])
def test_a_slash_in_front_leaves_the_namespace_in_gz_style_only(names: Any, full: str) -> None:
    with Agent(name="/status", namespace="robot1", partition="sim", names=names) as agent:
        assert announced(agent, "agent") == {full}
