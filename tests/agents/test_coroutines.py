from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import PeerLost
from pzc.agents.server.coroutines import Coroutines

from tests.contract.rigs import meetings
from tests.contract.rigs.calling import TIMEOUT, in_thread
from tests.contract.rigs.meetings import Meeting
from tests.contract.rigs.peers import run_threads
from tests.contract.rigs.turns import turns

meeting, proxy = meetings.meeting, meetings.proxy


def cancel(proxy: Any, call_id: str) -> Any:
    return proxy._proxy_remote.ask({"pzc": "cancel", "id": call_id}).content["state"]


def test_cancelling_reaches_an_async_method(meeting: Meeting, proxy: Any) -> None:
    remote = proxy._proxy_remote
    content = ("PSMessage", "exec", {"name": "sleep", "method": "__call__"})
    running = remote.agent.exchange_later(remote.peer, content, TIMEOUT)
    assert meeting.entered.wait(TIMEOUT)
    assert cancel(proxy, running.msgid) == "told"
    detail = running.result(TIMEOUT).content[2][0]
    assert detail["type"].endswith("CallCancelled")
    assert meeting.ended.is_set()


def test_the_next_call_waits_until_a_cancelled_coroutine_has_cleaned_up(meeting: Meeting, proxy: Any) -> None:
    remote = proxy._proxy_remote
    content = ("PSMessage", "exec", {"name": "sleep", "method": "__call__"})
    running = remote.agent.exchange_later(remote.peer, content, TIMEOUT)
    assert meeting.entered.wait(TIMEOUT)
    thread, outcome = in_thread(lambda: proxy.plain())
    cancel(proxy, running.msgid)
    thread.join(TIMEOUT)
    assert outcome == [True]


def test_a_coroutine_that_goes_on_after_it_was_cancelled_answers_what_it_answers(
    meeting: Meeting, proxy: Any
) -> None:
    remote = proxy._proxy_remote
    content = ("PSMessage", "exec", {"name": "stubborn", "method": "__call__"})
    running = remote.agent.exchange_later(remote.peer, content, TIMEOUT)
    assert meeting.entered.wait(TIMEOUT)
    cancel(proxy, running.msgid)
    assert tuple(running.result(TIMEOUT).content) == ("PSMessage", "return", "I went on")


@pytest.fixture
def coroutines() -> Iterator[Coroutines]:
    made = Coroutines("test")
    yield made
    made.close()


def test_no_thread_is_started_before_the_first_coroutine(coroutines: Coroutines) -> None:
    before = threading.active_count()
    coroutines.close()
    assert threading.active_count() == before


def test_after_close_a_coroutine_is_refused_and_left_closed(coroutines: Coroutines) -> None:
    coroutines.close()
    with pytest.raises(PeerLost, match="is being stopped"):
        coroutines.run(turns())


def test_coroutines_of_many_threads_share_one_loop(coroutines: Coroutines) -> None:
    loops: set[int] = set()

    async def note() -> None:
        loops.add(id(asyncio.get_running_loop()))

    run_threads(*[lambda: [coroutines.run(note()) for _ in range(20)]] * 8)
    assert len(loops) == 1
