from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest

from pzc import Server, close

from tests.contract.rigs.calling import KEY, Notebook, until


@pytest.fixture(autouse=True)
def _no_child_is_left() -> Iterator[None]:
    yield
    until(lambda: not multiprocessing.active_children())


def test_the_child_signs_with_the_key_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_KEY", KEY)
    proxy = Server.serve_in_process(Notebook)
    assert proxy.pid() > 0
    assert proxy._proxy_remote.agent.peer(proxy._proxy_remote.endpoint).details["signed"] is True
    proxy._proxy_stop_server()
    close(proxy)
