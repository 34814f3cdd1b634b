"""Names that rules put in the place of others, and names in gz style, of agents in one process."""

from __future__ import annotations

from typing import Any

from pzc import Agent

from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.peers import TIMEOUT


def _announced(agent: Agent, kind: str) -> set[str]:
    """Full names of what an agent announces of a kind, as its process knows them."""
    found = agent._naming.own().match("**")
    return {
        f"@{entry.partition}@{entry.name}"
        for entry in found
        if entry.agent == agent.agent_id and (entry.kind == "topic") == (kind == "topic")
    }


def test_the_topic_status_of_robot1_in_sim_is_found_by_its_full_name() -> None:
    place: dict[str, Any] = {"namespace": "robot1", "partition": "sim"}
    with Agent(name="psu", remap={"psu/state": "/status"}, **place) as publisher, Agent(**place) as reader:
        publisher.advertise("state")
        eventually(lambda: _announced(publisher, "topic"))
        assert _announced(publisher, "topic") == {"@sim@/robot1/status"}
        subscription = reader.subscribe_graph("/status")
        eventually(lambda: subscription.sources)
        publisher.publish("state", "on")
        assert subscription.recv(TIMEOUT).content == "on"


def test_an_agent_named_status_has_the_full_name_of_robot1_in_sim() -> None:
    with Agent(name="/status", namespace="robot1", partition="sim") as agent:
        assert _announced(agent, "agent") == {"@sim@/robot1/status"}


def test_in_gz_style_a_slash_in_front_leaves_the_namespace_of_an_agent() -> None:
    with Agent(name="/status", namespace="robot1", partition="sim", names="gz") as agent:
        assert _announced(agent, "agent") == {"@sim@/status"}
