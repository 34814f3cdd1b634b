from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from pzc import (
    AgentClosed,
    PeerLost,
    Proxy,
    Server,
)
from pzc.agents.calling import bundles

from tests.contract.rigs import bundling
from tests.contract.rigs.bundling import Notes, messages
from tests.contract.rigs.calling import TIMEOUT, served

notes, server, proxy, gathering = bundling.notes, bundling.server, bundling.proxy, bundling.gathering


def test_a_server_that_takes_calls_one_by_one_gets_them_so(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe = Server.describe

    def without(self: Server) -> dict[str, Any]:
        return {key: value for key, value in describe(self).items() if key != "bundles"}

    monkeypatch.setattr(Server, "describe", without)
    with served(notes) as (server, proxy):
        before = messages(server)
        futures = [proxy.note.future(number) for number in range(20)]
        assert [future.result(TIMEOUT) for future in futures] == list(range(20))
        assert messages(server) >= before + 20


def test_calls_end_when_their_agent_is_stopped(notes: Notes) -> None:
    with served(notes) as (_, proxy):
        running = proxy.wait.future()
        assert notes.entered.wait(TIMEOUT)
        futures = [proxy.note.future(number) for number in range(5)]
        for future in futures:
            future._owner = None
        agent = proxy._proxy_remote.agent
        agent.loop.run(agent._deferred.close)
        for future in (running, *futures):
            with pytest.raises((AgentClosed, PeerLost)):
                future.result(TIMEOUT)
        notes.opened.set()


def test_nothing_is_expected_any_more_when_every_outcome_came_by_itself(
    proxy: Proxy, notes: Notes, gathering: Future[Any]
) -> None:
    notes.opened.set()
    agent = proxy._proxy_remote.agent
    values = [bytes(bundles.MAX_BODY)] * 3
    gathering.result(TIMEOUT)
    for _ in range(3):
        futures = [proxy.grow.future(len(value)) for value in values]
        assert [future.result(TIMEOUT) for future in futures] == values
    agent.loop.run(lambda: None)
    waiting = [entry for entry in agent._deferred._pending.values() if entry.bundle is not None]
    assert (waiting, agent._deferred._going_on, agent._deferred.bundled) == ([], {}, 0)
