from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pzc.agents.server.reply_cache import ReplyCache

from tests.contract.rigs import deferring
from tests.contract.rigs.calling import TIMEOUT, served
from tests.contract.rigs.deferring import Futures

futures = deferring.futures


def test_a_future_outlives_the_servers_patience_with_one_question(
    monkeypatch: pytest.MonkeyPatch,
    timings: Callable[..., None],
) -> None:
    timings(result_wait=0.01)
    target, asked = Futures(), threading.Semaphore(0)
    ask = ReplyCache.ask

    def noted(self: ReplyCache, *args: Any) -> None:
        ask(self, *args)
        asked.release()

    monkeypatch.setattr(ReplyCache, "ask", noted)
    with served(target) as (_, proxy):
        future = proxy.wait()
        for _ in range(3):
            assert asked.acquire(timeout=TIMEOUT)
        target.later.set_result(7)
        assert future.result(TIMEOUT) == 7
