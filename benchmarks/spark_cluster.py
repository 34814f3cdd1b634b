"""A Spark cluster on this machine's loopback: one master, some workers, all of it in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path

import psutil
import pyspark

from .children import ROOT

START_TIMEOUT = 60.0
END_TIMEOUT = 10.0
BUILD_TIMEOUT = 300.0

_DAEMON_MEMORY = "256m"
_LOOK = 0.05
_EXECUTOR = "CoarseGrainedExecutorBackend"
_GUARD = '"$@" & read _; kill -9 $!'
"""Ends the daemon when its standard input ends: a virtual machine does not look at that."""
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"


class ClusterFailed(Exception):
    """A part of the cluster did not come up; the text has the end of its log."""


class Daemon:
    """One of Spark's processes; its log is a file. It cannot outlive this process, however that ends."""

    def __init__(self, folder: Path, role: str, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        home = Path(pyspark.__file__).parent
        environment = own_environment() | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder),
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
        }
        program = str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", _GUARD, "sh", *program, *arguments],
                stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, cwd=folder,
                start_new_session=True,
            )  # fmt: skip

    def wait_for(self, text: re.Pattern[str]) -> re.Match[str]:
        """Wait until the log has it."""
        deadline = time.monotonic() + START_TIMEOUT
        pause = threading.Event()
        while True:
            told = self.log.read_text(encoding="utf-8", errors="replace")
            if found := text.search(told):
                return found
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ClusterFailed(f"{self.log.parent.name} did not start:\n{told[-2000:]}")
            pause.wait(_LOOK)

    def executors(self) -> list[psutil.Process]:
        """Of a worker: the virtual machines that work for applications."""
        return [each for each in self._family() if _EXECUTOR in " ".join(_command_line(each))]

    def kill(self) -> None:
        """End it and all that it started, at once."""
        family = self._family()
        assert self._process.stdin is not None
        self._process.stdin.close()
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, END_TIMEOUT)
        self._process.wait(END_TIMEOUT)

    def _family(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class Cluster:
    """A master and workers; leaving the context ends all of it.

    Args:
        folder: of logs, shuffle files and the applications' files.
        workers: how many, of one core each.
        memory: of each worker, for all executors on it.

    Attributes:
        master: its URL.
    """

    def __init__(self, folder: Path, workers: int = 2, memory: str = "2g") -> None:
        self._folder, self._memory = folder, memory
        self._daemons: list[Daemon] = []
        self.workers: list[Daemon] = []
        try:
            place = "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
            master = Daemon(folder / "master", "master.Master", *place)
            self._daemons.append(master)
            self.master = master.wait_for(_MASTER)[1]
            for _ in range(workers):
                self.add_worker(wait=False)
            for worker in self.workers:
                worker.wait_for(re.compile(_REGISTERED))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def add_worker(self, *, wait: bool = True) -> Daemon:
        """One worker more."""
        folder = self._folder / f"worker{len(self._daemons)}"
        worker = Daemon(
            folder, "worker.Worker", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0",
            "--cores", "1", "--memory", self._memory, "--work-dir", str(folder / "work"), self.master,
        )  # fmt: skip
        self._daemons.append(worker)
        self.workers.append(worker)
        if wait:
            worker.wait_for(re.compile(_REGISTERED))
        return worker

    def close(self) -> None:
        """Kill everything, workers first."""
        while self._daemons:
            self._daemons.pop().kill()
        self.workers.clear()


def own_environment() -> dict[str, str]:
    """The caller's, without what leads Spark or its workers to anything of the caller's."""
    foreign = "SPARK_", "PYSPARK_", "PYTHONPATH"
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def environment_without_pzc(folder: Path) -> Path:
    """The Python of an environment that has everything that this one has, except this package."""
    venv.create(folder, with_pip=False, symlinks=True)
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    shelf = folder / "lib" / name / "site-packages"
    source = Path(pyspark.__file__).parents[1]
    for entry in source.iterdir():
        if not entry.name.lower().startswith(("pzc", "__editable__", "__pycache__")):
            (shelf / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


def build_wheel(folder: Path) -> Path:
    """A wheel of this checkout, built from a copy of what belongs to it."""
    source = folder / "source"
    left_out = shutil.ignore_patterns(".*", "__pycache__", "tests", "examples", "benchmarks", "build", "dist")
    shutil.copytree(ROOT, source, ignore=left_out)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "dist"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT, check=False)
    if done.returncode:
        raise ClusterFailed(f"no wheel could be built:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    [wheel] = (folder / "dist").glob("pzc-*.whl")
    return wheel
