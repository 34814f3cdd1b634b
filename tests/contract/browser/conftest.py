"""Pages in a headless Chromium; where there is none these tests skip with the reason.

The environment variable ``BROWSER_TESTS=required`` makes them fail instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.contract.rigs.browsing import CHROMIUM, REQUIRED, WATCHED, serve, size
from tests.contract.rigs.console import KEY, Console
from tests.contract.rigs.monitoring import Monitor, keyring
from tests.contract.rigs.processes import Forge

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They share what they watch, so one process runs them."""
    for item in items:
        if item.path.parent == FOLDER:
            item.add_marker(pytest.mark.xdist_group("browser"))
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM:
        assert not REQUIRED, "BROWSER_TESTS=required, and there is no chromium: apt-get install chromium"
        pytest.skip("there is no chromium: apt-get install chromium")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, forge: Forge) -> Iterator[Console]:
    """A console that knows the servers ``psu`` and ``busy``."""
    folder = tmp_path_factory.mktemp("watched")
    (folder / "watched.py").write_text(WATCHED, encoding="utf-8")
    console = Console(folder, forge)
    console.environment["PZC_KEY"] = KEY
    try:
        peers = {name: serve(console, kind, name)[1] for name, kind in (("psu", "Supply"), ("busy", "Busy"))}
        console.endpoint = peers["psu"]
        console.environment["PZC_PEERS"] = ",".join(f"{name}={endpoint}" for name, endpoint in peers.items())
        yield console
    finally:
        console.close()


@pytest.fixture(scope="module")
def monitor(lab: Console) -> Iterator[Monitor]:
    """The page of that lab, with which alice acts."""
    with Monitor(
        lab, "--timeout", "1", "--operator", f"alice={keyring(lab.folder, 'alice', KEY)}"
    ) as monitor:
        yield monitor


@pytest.fixture
def page(browser: Browser, monitor: Monitor) -> Iterator[Page]:
    """The page as alice sees it; whatever it writes to its console is an error."""
    said: list[str] = []
    context = browser.new_context(viewport=size(1280, 900))
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(monitor.users["alice"])
    page.locator('#agents tr[data-agent="psu"]').wait_for()
    yield page
    context.close()
    assert not said
