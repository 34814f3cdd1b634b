from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from pzc import Agent, PeerLost, Proxy, UnknownName, discover
from pzc.agents.calling.remote import RemoteObject
from pzc.agents.naming import participants
from pzc.discovery.events import Appeared, Conflict, Vanished

from tests.agents.naming_rig import Child, Watch
from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.peers import TIMEOUT

PATIENCE = 3 * TIMEOUT
"""Seconds within which a busy machine starts another process."""


def test_a_proxy_finds_a_server_of_another_process_by_its_name() -> None:
    with Child("psu"), Proxy("psu") as psu:
        assert psu.add(1, 2) == 3


def test_a_proxy_that_learns_its_members_anew_comes_along_when_the_server_moves() -> None:
    with Child("psu") as first, closing(RemoteObject("psu", PATIENCE, None)) as remote:
        first.kill()
        assert remote.trail is not None
        with Child("psu") as second:
            eventually(lambda: remote.trail and remote.trail.moves == 1)  # its members may be others now
            second.kill()
            with ThreadPoolExecutor(1) as pool:
                found = pool.submit(remote.member, "add")
                with Child("psu"):
                    assert found.result(PATIENCE)["kind"] == "method"


def test_nobody_is_asked_for_the_result_of_a_call_to_an_agent_that_is_elsewhere(
    timings: Callable[..., None],
) -> None:
    timings(call_recovery=PATIENCE)
    began, release = threading.Event(), threading.Event()

    class Busy(Agent):
        def on_request(self, sender: str, topic: str, content: object, msgid: str) -> object:
            began.set()
            release.wait(PATIENCE)
            return content

    with Busy() as busy, Agent() as asking, ThreadPoolExecutor(1) as pool:
        call = pool.submit(asking.request, busy.rep_endpoint, "work", PATIENCE)
        try:
            assert began.wait(TIMEOUT)
            asking.abandon(busy.rep_endpoint)
            with pytest.raises(PeerLost, match="is not where its agent is any more"):
                call.result(TIMEOUT)
        finally:
            release.set()


def test_agents_with_another_key_are_counted_and_told_about() -> None:
    with Child("secret", PZC_KEY="one key"), Agent() as asking:
        with pytest.raises(UnknownName, match=r"are signed with another key|are signed"):
            asking.request("secret", 1)
        assert sum(asking.statistics()["discovery"]["refused"].values()) >= 1


def test_discover_hears_other_processes() -> None:
    with Child("psu", "lab", "voltage"):
        assert [entry.name for entry in discover("/lab/**", 1.0)] == ["/lab/psu", "/lab/psu/voltage"]


def test_a_topic_is_known_soon_after_its_first_notification() -> None:
    with Agent(name="meter") as meter, Watch() as watch:
        meter.publish("reading", 1)
        _, event = watch.until(Appeared, "/meter/reading")
    assert (event.entry.topic, event.entry.agent) == ("reading", meter.agent_id)


def test_the_last_of_several_agents_gives_the_sockets_back() -> None:
    with Agent(name="one"):
        with Agent(name="two"):
            assert len(participants._table.participants) == 1
    assert not participants._table.participants


def test_a_name_that_two_agents_hold_is_told_once_with_both(caplog: pytest.LogCaptureFixture) -> None:
    with Watch() as watch, Agent(name="psu") as one, Agent(name="psu") as two:
        watch.until(Conflict, "/psu")
        conflicts = one.statistics()["discovery"]["conflicts"]["/psu"]
        assert any(one.agent_id[:8] in owner for owner in conflicts)
        assert any(two.agent_id[:8] in owner for owner in conflicts)
        assert [record.levelname for record in caplog.records if "two agents" in record.message] == [
            "WARNING"
        ]
        assert Agent.resolve(one, "psu") == two.rep_endpoint


def test_a_topic_of_the_process_is_not_told_to_others() -> None:
    with Agent(name="meter") as meter, Child("other"), Proxy("other") as other:
        meter.advertise("inside", scope="process")
        meter.advertise("outside")
        names = eventually(lambda: (found := other.names()) and "/meter/outside" in found and found)
        assert "/meter/inside" not in names
        assert "/meter/inside" in [entry.name for entry in discover("*", 0.1)]


def test_a_vanished_name_is_told_when_its_agent_stops() -> None:
    with Watch() as watch:
        with Agent(name="brief"):
            watch.until(Appeared, "/brief")
        watch.until(Vanished, "/brief")
