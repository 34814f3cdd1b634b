"""A server that says too much costs others nothing, and its callers no more than their timeout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from pzc import Agent, CallTimeout, Protocol

from tests.contract.rigs.calling import KEY, TIMEOUT, in_thread, until


@pytest.fixture
def flooding() -> Iterator[str]:
    """The endpoint of such a server."""
    command = [sys.executable, "-m", "tests.contract.rigs.flooding", KEY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def test_replies_that_nobody_asked_for_hold_up_no_other_agent_of_the_process(flooding: str) -> None:
    def unexpected() -> int:
        return asking.statistics()["counts"].get("replies_unexpected", 0)

    with Agent(protocol=Protocol(KEY)) as asking, Agent(protocol=Protocol(KEY)) as other:
        other.peer(asking.rep_endpoint)
        asked = asking.exchange_later(asking.peer(flooding), "again", TIMEOUT)
        assert asked.result(TIMEOUT).content == "again"
        until(lambda: unexpected() > 1000)
        assert other.exchange(asking.rep_endpoint, "ping", TIMEOUT, transport="tcp").content == "pong"
        before = unexpected()
        until(lambda: unexpected() > before + 1000)  # they still come


def test_replies_to_other_requests_do_not_stretch_a_timeout(flooding: str) -> None:
    with Agent(protocol=Protocol(KEY)) as asking:
        assert asking.request(flooding, "something", TIMEOUT) == "something"
        thread, outcome = in_thread(lambda: asking.request(flooding, "before", 0.5))
        thread.join(TIMEOUT)
    assert [type(each) for each in outcome] == [CallTimeout]
