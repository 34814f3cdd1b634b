from __future__ import annotations

import subprocess
import sys

import pytest

from pzc import Agent, AgentClosed

from tests.contract.rigs.calling import TIMEOUT, in_thread, run_in_fork
from tests.contract.rigs.gated import Gated


def test_stop_ends_a_request_of_its_own_that_waits() -> None:
    with Gated() as agent:
        client = Agent()
        thread, outcome = in_thread(lambda: client.request(agent.rep_endpoint, "slow", TIMEOUT))
        assert agent.entered.wait(TIMEOUT)
        client.stop()
        thread.join(TIMEOUT)
        assert isinstance(outcome[0], AgentClosed)
        agent.opened.set()


def test_join_waits_no_longer_than_it_is_told() -> None:
    with Agent() as agent:
        assert agent.join(0.01) is False
    assert agent.join(0.01) is True


def test_a_stopped_agent_says_so_when_it_is_used() -> None:
    agent = Agent(name="psu")
    agent.stop()
    agent.stop()
    for use in (
        lambda: agent.request("tcp://127.0.0.1:1", 7),
        lambda: agent.publish("t", 7),
        lambda: agent.subscribe("tcp://127.0.0.1:1", "t"),
        lambda: agent.peer("tcp://127.0.0.1:1"),
    ):
        with pytest.raises(AgentClosed, match=r"psu .*was stopped"):
            use()


def test_a_request_from_the_io_thread_is_refused_instead_of_waiting_for_itself() -> None:
    with Agent() as agent:
        with pytest.raises(AgentClosed, match="wait for itself"):
            agent.loop.run(lambda: agent.request(agent.rep_endpoint, 7))


@pytest.mark.needs("fork")
def test_an_agent_used_after_fork_says_so_and_a_new_one_works_there() -> None:
    with Agent() as agent, Agent() as client:
        assert client.request(agent.rep_endpoint, 7) == 7

        def child() -> None:
            with pytest.raises(AgentClosed, match="belongs to the parent of this forked process"):
                client.request(agent.rep_endpoint, 7)
            client.stop()
            with Agent() as own:
                assert own.request(agent.rep_endpoint, 8, TIMEOUT) == 8

        assert run_in_fork(child) == 0
        assert client.request(agent.rep_endpoint, 9) == 9


def test_a_process_that_forgets_to_stop_its_agents_ends_all_the_same() -> None:
    code = "import pzc; a = pzc.Agent(); b = pzc.Agent(); print(b.request(a.rep_endpoint, 7))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    assert (done.stdout, done.stderr) == ("7\n", "")
