"""What a result depends on: the machine, its load meanwhile, versions, the day."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import time
from pathlib import Path
from typing import Any

import psutil

import pzc


class Load:
    """How busy the machine is beside the benchmark, and how much of it the hypervisor took."""

    def __init__(self) -> None:
        psutil.cpu_percent()
        time.sleep(0.5)
        self._before = psutil.cpu_percent()
        self._began = psutil.cpu_times()

    def text(self) -> str:
        """The load before the run, and the stolen time during it, in percent of all cores."""
        now = psutil.cpu_times()
        total = sum(now) - sum(self._began)
        stolen = getattr(now, "steal", 0.0) - getattr(self._began, "steal", 0.0)
        share = 100 * stolen / max(total, 1e-9)
        return f"{self._before:.0f} % busy before the run, {share:.1f} % stolen during it"


def describe(packages: tuple[str, ...]) -> dict[str, Any]:
    """Processor, cores, system, date, and versions of Python and of the packages that are installed."""
    versions = {"Python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = pzc.__version__ if name == "pzc" else importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "cpu": _cpu(),
        "cores": psutil.cpu_count() or 0,
        "kernel": f"{platform.system()} {platform.release()}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions,
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
