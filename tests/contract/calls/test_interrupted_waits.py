"""Calls whose waits are interrupted by signals."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from pzc import CallTimeout, Protocol

from tests.contract.rigs.calling import KEY, ServerProcess, proxied


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_signals_that_come_all_the_time_keep_no_call_beyond_its_timeout(
    tmp_path: Path, transport: str
) -> None:
    """As those of a profiler, or of whoever is impatient."""
    over, me = threading.Event(), threading.get_ident()

    def interrupt() -> None:
        while not over.wait(0.01):
            signal.pthread_kill(me, signal.SIGUSR1)

    before, thread = signal.signal(signal.SIGUSR1, lambda *_: None), threading.Thread(target=interrupt)
    try:
        with ServerProcess() as server:
            options: dict[str, Any] = {"timeout": 0.5, "transport": transport, "protocol": Protocol(KEY)}
            with proxied(server.endpoint, **options) as proxy:
                proxy.write(str(tmp_path / "notes"), "before")
                server.freeze()
                thread.start()
                with pytest.raises(CallTimeout):
                    proxy.write(str(tmp_path / "notes"), "frozen")
                over.set()
                server.thaw()
    finally:
        over.set()
        if thread.ident:
            thread.join()
        signal.signal(signal.SIGUSR1, before)
