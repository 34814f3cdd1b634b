"""What the page of ``pzc monitor`` costs a browser while 10 000 values a second come.

``python -m benchmarks.monitor --minutes 10`` starts a publisher, the monitor and a headless Chromium with the
publisher's panel open, and prints the memory of the page and how late it answers, every half a minute
and, at the end, in one line.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from pzc import Server, Signal

from benchmarks.children import ROOT

RATE = 10_000
EVERY = 30.0
DELAY = """() => new Promise((done) => {
    const began = performance.now();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - began), 0));
})"""


class Busy:
    """Emits `RATE` values a second.

    Args:
        stop: ends it.
    """

    def __init__(self, stop: threading.Event) -> None:
        self.value = Signal("value")
        self._stop = stop

    def run(self) -> None:
        number, due = 0, time.monotonic()
        while not self._stop.is_set():
            for _ in range(RATE // 100):
                number += 1
                self.value.emit(number % 1000 / 10)
            due = max(due + 0.01, time.monotonic() - 0.5)
            self._stop.wait(max(0.0, due - time.monotonic()))


def measured(page: Any, session: Any) -> tuple[float, float]:
    """Megabytes of the page's heap after a collection, and its median delay in milliseconds."""
    session.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    delays = [page.evaluate(DELAY) for _ in range(20)]
    return metrics["JSHeapUsedSize"] / 1e6, statistics.median(delays)


def rounds(address: str, minutes: float) -> Iterator[tuple[float, float, float, str]]:
    """Seconds, megabytes, milliseconds, and what the panel says of the topic."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(address)
        page.locator('tr[data-agent="busy"] button').click(timeout=30_000)
        page.locator("canvas.plot").wait_for()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        began = time.monotonic()
        while True:
            told = page.locator('[data-member="value"] .about').inner_text()
            yield (passed := time.monotonic() - began), *measured(page, session), told
            if passed >= minutes * 60:
                break
            page.wait_for_timeout(min(EVERY, max(1.0, minutes * 60 - passed)) * 1000)
        browser.close()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    args = parser.parse_args(argv)
    os.environ.setdefault("PZC_KEY", secrets.token_hex(16))
    stop = threading.Event()
    busy = Busy(stop)
    publishing = threading.Thread(target=busy.run)
    with Server(busy, name="busy", expose=["value"]) as server:
        command = [sys.executable, "-P", "-m", "pzc", "monitor", "--port", "0", "--json"]
        environment = {**os.environ, "PZC_PEERS": f"busy={server.rep_endpoint}"}
        monitor = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT)
        publishing.start()
        try:
            assert monitor.stdout is not None
            address = json.loads(monitor.stdout.readline())["monitor"]
            found: list[tuple[float, float]] = []
            for passed, megabytes, milliseconds, told in rounds(address, args.minutes):
                print(f"{passed:5.0f} s  {megabytes:6.2f} MB  {milliseconds:6.1f} ms  {told}", flush=True)
                found.append((megabytes, milliseconds))
            delays = [milliseconds for _, milliseconds in found]
            print(
                f"heap {found[0][0]:.2f} MB at the start, {found[-1][0]:.2f} MB at the end; "
                f"delay {statistics.median(delays):.1f} ms, at most {max(delays):.1f} ms"
            )
        finally:
            stop.set()
            publishing.join()
            monitor.terminate()
            monitor.wait(20)
    return 0


if __name__ == "__main__":
    sys.exit(main())
