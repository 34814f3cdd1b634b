"""How a session of one machine writes the files of a query's checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pzc.pipeline.spark.session import CHECKPOINTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(240),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]


@pytest.fixture
def manager(spark: SparkSession, tmp_path: Path) -> Any:
    """What Spark takes for a checkpoint in the test's folder."""
    inner: Any = spark
    streaming = inner._jvm.org.apache.spark.sql.execution.streaming
    place = inner._jvm.org.apache.hadoop.fs.Path(tmp_path.as_uri())
    settings = inner._jsparkSession.sessionState().newHadoopConf()
    return streaming.checkpointing.CheckpointFileManager.create(place, settings)


@pytest.fixture
def begin(spark: SparkSession, manager: Any, tmp_path: Path) -> Callable[[bytes], Any]:
    """Write the file ``0`` of that checkpoint, as Spark's logs do, all but its end."""
    inner: Any = spark
    path = inner._jvm.org.apache.hadoop.fs.Path((tmp_path / "0").as_uri())

    def begin(content: bytes) -> Any:
        stream = manager.createAtomic(path, False)
        stream.write(bytearray(content))
        return stream

    return begin


def test_a_session_of_one_machine_starts_no_programs_to_rename_files(manager: Any) -> None:
    assert manager.getClass().getName() == CHECKPOINTS


def test_a_file_of_a_checkpoint_is_there_only_when_it_is_whole(begin: Any, tmp_path: Path) -> None:
    stream = begin(b"whole")
    assert not (tmp_path / "0").exists()
    stream.close()
    assert (tmp_path / "0").read_bytes() == b"whole"


def test_a_file_of_a_checkpoint_is_never_replaced(begin: Any, tmp_path: Path) -> None:
    from py4j.protocol import Py4JJavaError

    begin(b"first").close()
    second = begin(b"second")
    with pytest.raises(Py4JJavaError, match="already exists"):
        second.close()
    assert (tmp_path / "0").read_bytes() == b"first"
