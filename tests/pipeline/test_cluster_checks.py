"""What is said of a cluster before Spark is started, and of its workers before a job is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pzc.pipeline.spark import cluster
from pzc.pipeline.spark.cluster import Answer
from pzc.protocol.errors import ConfigError, MissingRequirement
from pzc.protocol.version import VERSION


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port at which nobody listens, and nobody can."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,4]", True),
        ("local-cluster[1,1,1024]", False),
        ("spark://local:7077", False),
        ("yarn", False),
    ],
)
def test_masters_of_one_machine_are_told_from_those_of_a_cluster(master: str, local: bool) -> None:
    assert cluster.is_local(master) is local


def test_of_several_masters_one_that_listens_is_enough(port: int, nobody: int) -> None:
    assert cluster.driver_address(f"spark://127.0.0.1:{nobody},127.0.0.1:{port}") == "127.0.0.1"


def test_a_master_at_which_nobody_listens_is_named(nobody: int) -> None:
    with pytest.raises(MissingRequirement, match=f"no Spark master answers at 127.0.0.1:{nobody}"):
        cluster.driver_address(f"spark://127.0.0.1:{nobody}")


@pytest.mark.parametrize("master", ["spark://", "spark://host", "spark://host:port"])
def test_a_master_without_host_and_port_is_refused(master: str) -> None:
    with pytest.raises(ConfigError, match=r"is not spark://HOST:PORT"):
        cluster.driver_address(master)


def test_other_kinds_of_masters_are_left_to_spark() -> None:
    assert cluster.driver_address("yarn") is None


def test_workers_reach_this_process_where_it_reaches_the_master_from(port: int) -> None:
    assert cluster.driver_address(f"spark://127.0.0.1:{port}") == "127.0.0.1"


def test_a_worker_with_another_version_is_told_from_one_with_this() -> None:
    assert cluster.judge(Answer("node", 1, VERSION, "")) == ""
    assert cluster.judge(Answer("node", 1, "0.0.1", "")) == f"it has pzc 0.0.1, and this is {VERSION}"


def test_what_a_worker_lacks_is_its_problem() -> None:
    assert "pyarrow" in cluster.judge(Answer("node", 1, VERSION, "No module named 'pyarrow'"))


def test_a_wheel_of_this_version_is_accepted(tmp_path: Path) -> None:
    wheel = tmp_path / f"pzc-{VERSION}-py3-none-any.whl"
    wheel.touch()
    cluster.check_wheel(wheel)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pzc-9.9-py3-none-any.whl", "is pzc 9.9"),
        ("other-1.0-py3-none-any.whl", "no wheel of pzc"),
        ("pzc", "no wheel"),
    ],
)
def test_a_file_that_is_no_wheel_of_this_version_is_refused(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=said):
        cluster.check_wheel(tmp_path / name)


def test_a_wheel_that_is_absent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no wheel"):
        cluster.check_wheel(tmp_path / f"pzc-{VERSION}-py3-none-any.whl")
