"""A lab in one command: four instruments, a client, a recorder, the pipeline, a report.

``python -m examples.lab.demo`` starts ``lab.toml`` with ``pzc up``, uses it, ends it with ``pzc down``, and
exits with status 0 only when every check held. Ctrl-C leaves no process behind.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pzc.console.tables import write_table
from pzc.pipeline.reporting.report import Results, topic_table
from pzc.pipeline.reporting.texts import show
from pzc.pipeline.spark.session import require_java

TIMEOUT = 60.0
ROOT = Path(__file__).resolve().parents[2]
PZC = (sys.executable, "-P", "-m", "pzc")
FILE = Path(__file__).with_name("lab.toml")


class LabFailure(Exception):
    """A part of the lab did not do what it had to; the text tells which."""


class Lab:
    """The lab of the demo; leaving the context ends it.

    Args:
        directory: of its file, its key and its journal.
        objects: what is served in the place of something else: ``module:Class``, both.

    Attributes:
        environment: of its processes, and of whoever uses it.
    """

    def __init__(self, directory: Path, objects: Mapping[str, str] | None = None) -> None:
        self.file = directory / "lab.toml"
        self.began = time.monotonic()
        keyring = directory / "lab.keyring"
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PZC_KEY"},
            "PZC_KEYRING": str(keyring),
            "PZC_PARTITION": f"demo-{secrets.token_hex(4)}",  # names of another demo are others
            "PZC_IP": os.environ.get("PZC_IP", "127.0.0.1"),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        }
        if self.file.exists():  # of a demo that was killed
            self.end()
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        keyring.touch(mode=0o600)
        keyring.write_text(self._run("keygen", "--keyring", "lab", "--role", "admin"))
        partition = f'partition = "{self.environment["PZC_PARTITION"]}"'
        text = FILE.read_text().replace("[lab]\n", f'[lab]\nkeyring = "lab.keyring"\n{partition}\n')
        for old, new in (objects or {}).items():
            text = text.replace(old, new)
        self.file.write_text(text)

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:5.1f} s] {text}", flush=True)

    def _run(self, *arguments: str) -> str:
        """What a command prints; Ctrl-C is for us alone, and whatever begins is waited for."""
        with subprocess.Popen(
            [*PZC, *arguments],
            stdout=subprocess.PIPE,
            env=self.environment,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                told, _ = process.communicate(timeout=TIMEOUT)
            except KeyboardInterrupt:
                process.communicate(timeout=TIMEOUT)
                raise
        if process.returncode:
            raise LabFailure(f"pzc {' '.join(arguments)} ended with status {process.returncode}")
        return told

    def __enter__(self) -> Lab:
        try:
            rows = [json.loads(line) for line in self._run("up", str(self.file), "--json").splitlines()]
        except BaseException:
            self.end()
            raise
        self.say(f"pzc up: {', '.join(row['name'] for row in rows)}")
        address = {row["kind"]: row["address"] for row in rows}
        self.say(f"look at the lab while it runs: {address['monitor']}")
        self.say(f"what Prometheus reads: {address['metrics']}")
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def end(self) -> None:
        """End everything, if anything runs."""
        subprocess.run(
            [*PZC, "down", str(self.file)], env=self.environment, start_new_session=True,
            stderr=subprocess.DEVNULL, timeout=TIMEOUT, check=False,
        )  # fmt: skip

    def use(self, seconds: float) -> dict[str, Any]:
        """Let the client do its part; what it says of it."""
        result = self.file.with_name("client.json")
        command = [sys.executable, "-m", "examples.lab.client", "--result-file", str(result)]
        done = subprocess.run(
            [*command, "--seconds", str(seconds)], env=self.environment, cwd=ROOT, check=False
        )
        if done.returncode:
            raise LabFailure(f"the client ended with status {done.returncode}")
        return json.loads(result.read_text())

    def recorded(self) -> dict[str, Any]:
        """What the recorder said at its end."""
        lines = self._run("logs", str(self.file), "recorder", "-n", "20").splitlines()
        for line in reversed(lines):
            if '"durable"' in line:
                return json.loads(line[line.index("{") :])
        raise LabFailure(f"the recorder did not end as it should: {lines[-1:]}")


def run(directory: Path, seconds: float, objects: Mapping[str, str] | None = None) -> int:
    """The whole demo; 0 when every check held, else 1.

    Args:
        directory: of the report, the journal and the tables; emptied first.
        seconds: how long the instruments publish.
        objects: as `Lab`.
    """
    from .analysis import analyse

    require_java()
    lab = Lab(directory, objects)
    try:
        with lab:
            client = lab.use(seconds)
        told = {"client": client, "recorder": lab.recorded()}
        lab.say(f"pzc down: recorded {told['recorder']['recorded']} notifications, every one on disk")
        results = analyse(told, directory, lab.environment, lab.say)
    except (LabFailure, subprocess.SubprocessError) as exc:
        lab.say(f"FAILED: {exc}")
        return 1
    tell(results)
    lab.say(f"report: {directory / 'index.html'}")
    lab.say("every check held" if results.ok else "FAILED: see the checks above")
    return 0 if results.ok else 1


def tell(results: Results) -> None:
    """Print the topics, and every check with what came out."""
    if results.statistics is not None:
        topics = topic_table(results.statistics)
        rows = [list(map(show, row)) for row in topics.itertuples(index=False)]
        print()
        write_table(list(topics.columns), rows, range(2, len(topics.columns)))
    checks = [
        (each.name, show(each.expected), show(each.got), "ok" if each.ok else "FAILED")
        for each in results.checks
    ]
    print()
    write_table(("check", "expected", "got", "result"), checks)
    print()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A lab in one command.")
    parser.add_argument("--report", type=Path, default=ROOT / "demo-report", help="directory of the report")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long the instruments publish")
    args = parser.parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return run(args.report.resolve(), args.seconds)
    except KeyboardInterrupt:
        print("\nstopped; no process is left behind", flush=True)
        return 130


if __name__ == "__main__":
    sys.exit(main())
