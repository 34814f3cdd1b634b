"""A lab in one command: four instruments, a client, a recorder, the pipeline, a report.

``python -m examples.lab.demo`` starts everything as processes of this machine, signed with one
key, and exits with status 0 only when every check held. Ctrl-C leaves no process behind.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pzc.pipeline.reporting.report import format_checks, format_statistics
from pzc.pipeline.spark.session import require_java

INSTRUMENTS = ("psu", "host", "co2", "camera")
START_TIMEOUT = 30.0
STOP_TIMEOUT = 20.0
ROOT = Path(__file__).resolve().parents[2]


class LabFailure(Exception):
    """A process of the lab did not do its part; the text names it."""


class Lab:
    """The processes of the demo; leaving the context ends all of them.

    Args:
        folder: for files that tell who is ready, and results.
        seconds: how long the instruments publish.
        commands: module and arguments that replace a station's own, by name.
    """

    def __init__(
        self, folder: Path, seconds: float, commands: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.folder = folder
        self.seconds = seconds
        self.commands = dict(commands or {})
        self.began = time.monotonic()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.monitor: subprocess.Popen[bytes] | None = None
        self._waiter = threading.Event()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:5.1f} s] {text}", flush=True)

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end_monitor()
        for process in self.processes.values():
            if process.stdin and not process.stdin.closed:
                process.stdin.close()
        for process in self.processes.values():
            try:
                process.wait(5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, name: str, *arguments: str) -> None:
        command = self.commands.get(name, ("examples.lab.station", name))
        files = (
            "--ready-file",
            str(self.ready_file(name)),
            "--result-file",
            str(self.result_file(name)),
        )
        self._launch(name, [*command, *files, "--seconds", str(self.seconds), *arguments])

    def start_client(self) -> None:
        files = ("--result-file", str(self.result_file("client")))
        self._launch("client", ["examples.lab.client", *files, "--seconds", str(self.seconds)])

    def start_monitor(self) -> None:
        """Show the lab in a browser while it runs; without the packages for it, say how to get them."""
        if find_spec("uvicorn") is None or find_spec("starlette") is None:
            self.say("pip install 'pzc[monitor]' shows the lab in a browser while it runs")
            return
        command = [sys.executable, "-P", "-m", "pzc", "monitor", "--port", "0", "--json"]
        monitor = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=self.folder)
        self.monitor = monitor
        assert monitor.stdout is not None
        came, _, _ = select.select([monitor.stdout], [], [], START_TIMEOUT)
        line = monitor.stdout.readline() if came else b""
        if not line:
            raise LabFailure("the monitor does not tell its address")
        self.say(f"look at the lab while it runs: {json.loads(line)['monitor']}")

    def end_monitor(self) -> None:
        """The instruments end: there is nothing to look at any more."""
        if self.monitor is None:
            return
        monitor, self.monitor = self.monitor, None
        monitor.terminate()
        try:
            monitor.communicate(timeout=STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            monitor.kill()
            monitor.communicate()

    def _launch(self, name: str, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", *arguments]
        self.processes[name] = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT)

    def ready_file(self, name: str) -> Path:
        return self.folder / f"{name}.ready.json"

    def result_file(self, name: str) -> Path:
        return self.folder / f"{name}.result.json"

    def wait_for(self, name: str, path: Path, timeout: float) -> Any:
        """Contents of a file that a process writes."""
        deadline = time.monotonic() + timeout
        while not path.exists():
            if self.processes[name].poll() is not None and not path.exists():
                raise LabFailure(f"{name} ended with status {self.processes[name].returncode}")
            if time.monotonic() > deadline:
                raise LabFailure(f"{name} did not write {path.name} within {timeout:g} s")
            self._waiter.wait(0.05)
        return json.loads(path.read_text())

    def await_ready(self, name: str) -> None:
        self.wait_for(name, self.ready_file(name), START_TIMEOUT)

    def finish(self, name: str) -> Any:
        """End a station and return its result."""
        process = self.processes[name]
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired as exc:
            raise LabFailure(f"{name} did not stop within {STOP_TIMEOUT:g} s") from exc
        if process.returncode:
            raise LabFailure(f"{name} ended with status {process.returncode}")
        return json.loads(self.result_file(name).read_text())


def run_lab(lab: Lab, journal: Path) -> dict[str, Any]:
    """Run instruments, recorder and client to their end; their results by name."""
    for name in INSTRUMENTS:
        lab.start(name)
    for name in INSTRUMENTS:
        lab.await_ready(name)
        lab.say(f"{name} is there")
    lab.start_monitor()
    lab.start("recorder", "--journal", str(journal), "--publishers", *INSTRUMENTS)
    lab.await_ready("recorder")
    lab.say(f"recorder writes {journal}")
    lab.start_client()
    told = {"client": lab.wait_for("client", lab.result_file("client"), START_TIMEOUT + 3 * lab.seconds)}
    lab.end_monitor()
    for name in (*INSTRUMENTS, "recorder"):
        told[name] = lab.finish(name)
    lab.say(f"recorded {told['recorder']['recorded']} notifications, every one on disk")
    return told


def run(directory: Path, seconds: float, commands: Mapping[str, Sequence[str]] | None = None) -> int:
    """The whole demo; 0 when every check held, else 1.

    Args:
        directory: of the report, the journal and the tables; emptied first.
        seconds: how long the instruments publish.
        commands: as `Lab`.
    """
    from .analysis import analyse

    require_java()
    shutil.rmtree(directory, ignore_errors=True)
    folder, journal = directory / "run", directory / "journal"
    folder.mkdir(parents=True)
    os.environ.setdefault("PZC_KEY", secrets.token_hex(16))
    os.environ.setdefault("PZC_IP", "127.0.0.1")
    os.environ.setdefault("PZC_PARTITION", f"demo-{secrets.token_hex(4)}")  # names of another demo are others
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with Lab(folder, seconds, commands) as lab:
        try:
            told = run_lab(lab, journal)
            results = analyse(journal, os.environ["PZC_KEY"], told, directory, lab.say)
        except (LabFailure, subprocess.CalledProcessError) as exc:
            lab.say(f"FAILED: {exc}")
            return 1
        if results.statistics is not None:
            print(f"\n{format_statistics(results.statistics)}")
        print(f"\n{format_checks(results.checks)}\n")
        lab.say(f"report: {directory / 'index.html'}")
        lab.say("every check held" if results.ok else "FAILED: see the checks above")
        return 0 if results.ok else 1


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A lab in one command.")
    parser.add_argument("--report", type=Path, default=ROOT / "demo-report", help="directory of the report")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long the instruments publish")
    args = parser.parse_args(argv)
    try:
        return run(args.report.resolve(), args.seconds)
    except KeyboardInterrupt:
        print("\nstopped; no process is left behind", flush=True)
        return 130


if __name__ == "__main__":
    sys.exit(main())
