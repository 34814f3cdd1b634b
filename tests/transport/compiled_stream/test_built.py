"""The stream in C is small, builds without a warning, and stands what sanitizers and a fuzzer look at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pzc.transport import stream as chosen

from tests.transport.lane.building import ROOT, SANITIZED, compiled, compilers, environment, runtime

SOURCE = ROOT / "transport" / "stream.c"
COMPILERS = compilers()
FUZZING = 20
"""Seconds of a bounded run; before a change of the C code is published it takes ten million inputs."""

needs_gcc = pytest.mark.skipif("gcc" not in COMPILERS, reason="gcc is not installed")


def test_the_stream_has_at_most_1000_lines() -> None:
    assert len(SOURCE.read_text(encoding="utf-8").splitlines()) <= 1000


@pytest.mark.skipif(not COMPILERS, reason="no compiler is installed")
def test_where_a_compiler_is_the_stream_was_built_with_the_package() -> None:
    assert chosen.WHICH.startswith("compiled, with libcrypto") or os.environ.get("TESTS_LANES")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_it_builds_without_a_warning(compiler: str, tmp_path: Path) -> None:
    compiled(compiler, SOURCE, tmp_path / "built.so", "-O2", "-fPIC", "-shared")


@pytest.mark.parametrize("value", ["0", "off"])
def test_it_can_be_turned_off(value: str) -> None:
    code = "from pzc.transport.stream import Stream, WHICH; print(Stream.__name__, WHICH)"
    result = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment(PZC_COMPILED=value), capture_output=True,
        text=True, check=True, timeout=30,
    )  # fmt: skip
    assert result.stdout.strip() == "PlainStream plain Python: PZC_COMPILED turned the compiled stream off"


@needs_gcc
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_address_and_undefined_behaviour_sanitizers_find_nothing(tmp_path: Path) -> None:
    compiled("gcc", SOURCE, tmp_path / "_stream.so", "-fPIC", "-shared", *SANITIZED)
    libraries = [runtime("gcc", "libasan.so"), runtime("gcc", "libubsan.so")]
    result = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", "compiled",
         "tests/transport/test_stream.py"],
        cwd=ROOT,
        env=environment(
            STREAM_UNDER_TEST=str(tmp_path / "_stream.so"), LD_PRELOAD=" ".join(libraries),
            ASAN_OPTIONS="detect_leaks=0", PYTHONMALLOC="malloc",
        ),
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-8000:]


@needs_gcc
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_random_input_finds_nothing(tmp_path: Path) -> None:
    fuzz = compiled("gcc", Path(__file__).with_name("fuzz.c"), tmp_path / "fuzz", *SANITIZED)
    result = subprocess.run(
        [fuzz, "1000000000", str(FUZZING), str(os.getpid())], capture_output=True, text=True, check=False,
        timeout=FUZZING + 60,
    )  # fmt: skip
    assert result.returncode == 0, f"seed {os.getpid()}: {result.stderr}"
    assert int(result.stdout.split()[0]) > 10_000
