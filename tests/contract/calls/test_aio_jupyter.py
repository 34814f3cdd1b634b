"""In a real kernel, whose event loop runs already when a cell begins."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import Protocol, Server

from tests.contract.rigs.benches import Bench
from tests.contract.rigs.calling import KEY

START_TIMEOUT = 120.0
CELL_TIMEOUT = 60.0

pytestmark = pytest.mark.timeout(240)

Cell = Callable[[str], str]


@pytest.fixture
def cell(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    """Runs code in a kernel: the text of its last value, or the name and text of its exception."""
    home = tmp_path_factory.mktemp("jupyter")
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(home / name.lower()))
    ways = {"transport": "ipc", "ip": str(home / "kernel")}
    manager = pytest.importorskip("jupyter_client.manager").KernelManager(
        kernel_name="python3", connection_file=str(home / "kernel.json"), **ways
    )
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=START_TIMEOUT)
        yield lambda code: _execute(client, code)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        pytest.importorskip(
            "jupyter_core.utils"
        ).ensure_event_loop().close()  # the client's, which it never closes
        asyncio.set_event_loop(None)


def _execute(client: Any, code: str) -> str:
    message_id = client.execute(code, store_history=False)
    value, deadline = "", time.monotonic() + CELL_TIMEOUT
    while (left := deadline - time.monotonic()) > 0:
        try:
            message = client.get_iopub_msg(timeout=left)
        except queue.Empty:
            break
        content = message["content"]
        if message["parent_header"].get("msg_id") != message_id:
            continue
        if message["msg_type"] == "execute_result":
            value = content["data"]["text/plain"]
        elif message["msg_type"] == "error":
            value = f"{content['ename']}: {content['evalue']}"
        elif message["msg_type"] == "status" and content["execution_state"] == "idle":
            return value
    raise AssertionError(f"the kernel did not finish: {code}")


def test_a_notebook_awaits_at_top_level(cell: Cell) -> None:
    with Server(Bench(), protocol=Protocol(KEY)) as server:
        made = f"psu = pzc.aio.Proxy({server.rep_endpoint!r}, protocol=pzc.Protocol({KEY!r}), timeout=20)"
        assert cell(f"import pzc, pzc.aio\n{made}") == ""
        assert cell("await psu.ramp(21)") == "42"
        assert cell("await psu.fail()").startswith("ValueError: out of range")
        assert cell("[n async for n in psu.scan(4)]") == "[0, 1, 2, 3]"
        assert cell("async with pzc.aio.lock(psu, ttl=30):\n    held = await psu.ramp(2)\nheld") == "4"
        assert cell("'ramp' in dir(psu)") == "True"
        assert cell("psu") == f"<awaitable Proxy of {server.rep_endpoint}>"
        assert cell("await pzc.aio.close(psu)") == ""


def test_a_notebook_may_use_a_plain_proxy_as_well(cell: Cell) -> None:
    with Server(Bench(), protocol=Protocol(KEY)) as server:
        made = f"psu = pzc.Proxy({server.rep_endpoint!r}, protocol=pzc.Protocol({KEY!r}), timeout=20)"
        assert cell(f"import pzc\n{made}\npsu.ramp(21)") == "42"
        assert cell("pzc.close(psu)") == ""
