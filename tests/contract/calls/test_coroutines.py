from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, PeerLost, Server

from tests.contract.rigs import meetings
from tests.contract.rigs.calling import TIMEOUT, in_thread, served
from tests.contract.rigs.meetings import Meeting
from tests.contract.rigs.peers import run_threads

meeting, proxy = meetings.meeting, meetings.proxy


def test_async_methods_run_one_at_a_time_in_a_lane_of_one(meeting: Meeting, proxy: Any) -> None:
    run_threads(*[lambda: proxy.visit()] * 5)
    assert (meeting.most, meeting.inside) == (1, 0)


def test_async_methods_meet_in_a_lane_of_three(meeting: Meeting) -> None:
    with served(meeting, concurrency=3) as (_, proxy):
        run_threads(*[lambda: proxy.meet(3)] * 3)
    assert meeting.inside == 3


def test_what_an_async_method_raises_comes_back(proxy: Any) -> None:
    with pytest.raises(ValueError, match="out of range"):
        proxy.fail()
    assert proxy.visit() == 0


def test_an_async_method_that_exits_costs_its_caller_an_error_and_the_server_nothing(proxy: Any) -> None:
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        proxy.leave()
    assert proxy.visit() == 0


def test_a_server_that_is_stopped_cancels_the_coroutine_that_runs(meeting: Meeting) -> None:
    with served(meeting) as (server, proxy):
        thread, outcome = in_thread(lambda: proxy.sleep())
        assert meeting.entered.wait(TIMEOUT)
        server.stop()
        thread.join(TIMEOUT)
    assert meeting.ended.is_set()
    assert isinstance(outcome[0], PeerLost)


class Sent:
    """A call of an asynchronous method that was begun, and that another request may cancel."""

    def __init__(self, agent: Agent, server: Server, name: str) -> None:
        self._agent, self._endpoint = agent, server.rep_endpoint
        content = ("PSMessage", "exec", {"name": name, "method": "__call__"})
        self._call: Any = agent.exchange_later(agent.peer(self._endpoint), content, TIMEOUT)

    def cancel(self) -> str:
        word = {"pzc": "cancel", "id": self._call.msgid}
        return self._agent.request(self._endpoint, word, TIMEOUT)["state"]

    def answer(self) -> Any:
        return self._call.result(TIMEOUT).content


@pytest.fixture
def caller() -> Iterator[Agent]:
    with Agent() as made:
        yield made


def test_cancelling_reaches_an_async_method_and_the_next_call_waits_until_it_has_cleaned_up(
    meeting: Meeting, caller: Agent
) -> None:
    with served(meeting) as (server, proxy):
        running = Sent(caller, server, "sleep")
        assert meeting.entered.wait(TIMEOUT)
        thread, outcome = in_thread(lambda: proxy.plain())
        assert running.cancel() == "told"
        assert running.answer()[2][0]["type"].endswith("CallCancelled")
        thread.join(TIMEOUT)
        assert outcome == [True]


def test_a_coroutine_that_goes_on_after_it_was_cancelled_answers_what_it_answers(
    meeting: Meeting, caller: Agent
) -> None:
    with served(meeting) as (server, _):
        running = Sent(caller, server, "stubborn")
        assert meeting.entered.wait(TIMEOUT)
        running.cancel()
        assert tuple(running.answer()) == ("PSMessage", "return", "I went on")
