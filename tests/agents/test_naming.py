from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from pzc import Agent
from pzc.agents.client.remote import RemoteObject
from pzc.agents.leasing import lease
from pzc.agents.naming import participants

from tests.agents.naming_rig import Child
from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.peers import TIMEOUT

PATIENCE = 3 * TIMEOUT
"""Seconds within which a busy machine starts another process."""


def test_a_proxy_that_learns_its_members_anew_comes_along_when_the_server_moves() -> None:
    with Child("psu") as first, closing(RemoteObject(lease, "psu", PATIENCE, None)) as remote:
        first.kill()
        assert remote.follower is not None
        with Child("psu") as second:
            eventually(
                lambda: remote.follower and remote.follower.moves == 1
            )  # its members may be others now
            second.kill()
            with ThreadPoolExecutor(1) as pool:
                found = pool.submit(remote.kind, ("add",))
                with Child("psu"):
                    assert found.result(PATIENCE) == "method"


def test_the_last_of_several_agents_gives_the_sockets_back() -> None:
    with Agent(name="one"):
        with Agent(name="two"):
            assert len(participants._participants.things) == 1
    assert not participants._participants.things
