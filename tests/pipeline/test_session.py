from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pzc.pipeline.spark import session
from pzc.protocol.errors import MissingRequirement


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put a program called java first on an otherwise empty PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def make(script: str, folder: Path = tmp_path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "java"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return make


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "25-ea" 2025-09-16', 25),
    ],
)
def test_a_java_that_is_new_enough_is_accepted(java, line: str, version: int) -> None:
    java(f"echo '{line}' >&2")
    assert session.require_java() == version


@pytest.mark.parametrize(
    "line", ['java version "1.8.0_402"', 'openjdk version "11.0.22" 2024-01-16', "no idea"]
)
def test_an_older_java_is_refused_with_what_it_is(java, line: str) -> None:
    java(f"echo '{line}' >&2")
    with pytest.raises(MissingRequirement) as caught:
        session.require_java()
    assert line in str(caught.value)


def test_without_java_the_error_says_what_to_install(java) -> None:
    with pytest.raises(MissingRequirement, match=r"no Java found in PATH.*apt install openjdk-17"):
        session.require_java()


def test_a_java_that_does_not_run_is_refused(java) -> None:
    java("exit 3")
    with pytest.raises(MissingRequirement, match="does not run"):
        session.require_java()


def test_java_home_wins_over_the_path(java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java("""echo 'version "17.0.1"' >&2""")
    java("""echo 'version "21.0.1"' >&2""", tmp_path / "jdk" / "bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert session.require_java() == 21


def test_a_wrong_java_home_is_named(java, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere/jdk")
    with pytest.raises(MissingRequirement, match="JAVA_HOME /nowhere/jdk"):
        session.require_java()


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingRequirement, match=r"pip install 'pzc\[pipeline\]'"):
        session.spark_session()


@pytest.mark.parametrize(("master", "count"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2)])
def test_the_cores_of_a_local_master_are_known(master: str, count: int) -> None:
    assert session.cores(master) == count


@pytest.mark.parametrize(
    ("master", "used"),
    [
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_tries_a_task_as_often_as_a_cluster_does(master: str, used: str) -> None:
    assert session.retrying(master) == used


def test_all_cores_are_at_least_one() -> None:
    assert session.cores("local[*]") >= 1


def test_the_log_settings_are_part_of_the_package() -> None:
    assert "rootLogger.level = warn" in session.LOG_SETTINGS.read_text()
